"""The command `penstock`: turns errors into sentences and exit statuses."""

import os
import sys

from penstock import stopping
from penstock.extension import ExtensionError


def main() -> None:
    """Run the command; every expected error becomes one sentence on standard error."""
    stopping.leave_on_interrupt()
    try:
        status = run()
    except ExtensionError as error:
        # The package's other errors come from the extension module.
        _say(str(error))
        status = 2
    except KeyboardInterrupt:
        status = stopping.STOPPED
        _say("stopped")
    if status == stopping.STOPPED:
        # Do not wait for threads that are still in the simulator.
        os._exit(status)
    sys.exit(status)


def run() -> int:
    """Run the subcommand; returns the exit status."""
    if (answer := _at_once(sys.argv[1:])) is not None:
        try:
            print(answer, flush=True)
        except BrokenPipeError:
            return _discard()
        return 0
    from typer import Exit
    from typer.exceptions import TyperException

    from penstock import completion
    from penstock.errors import MISTAKE, PenstockError, exit_status
    from penstock.verbs import app

    completion.prepare()

    try:
        # Typer returns a status as if it were a result, that of Ctrl-C among them.
        status = app(sys.argv[1:] or ["--help"], prog_name=completion.PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except PenstockError as error:
        _say(str(error))
        return exit_status(error)
    except TyperException as error:
        _say(error.format_message().replace("Value error, ", ""))
        return MISTAKE
    except Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:
        return _discard()
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        _say(f"{about}{error.strerror or error}")
        return MISTAKE
    if status == stopping.STOPPED:
        _say("stopped")
    return status if isinstance(status, int) else 0


def _discard() -> int:
    """Discard the rest of the output, because its reader closed the pipe; returns the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _at_once(words: list[str]) -> str | None:
    """The answer to a question for the version or a list. The import of Typer would take longer than the answer."""
    from penstock import identity

    match words:
        case ["--version"]:
            return identity.one_line()
        case ["version"]:
            return identity.facts()
        case ["version", "--json"]:
            return identity.facts(as_json=True)
        case ["list"]:
            from penstock import listing
            from penstock.errors import PenstockError

            try:
                return listing.text(None)
            except PenstockError:
                # The parser's way prints the error.
                return None
    return None


def _say(sentence: str) -> None:
    from penstock.terminal import printable

    print(f"penstock: {printable(sentence)}", file=sys.stderr, flush=True)
