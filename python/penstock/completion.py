"""Shell completion, which Typer generates from the parser."""

import os
from collections.abc import Callable

from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

PROGRAM = "penstock"
VARIABLE = "_PENSTOCK_COMPLETE"
"""The environment variable with which a shell asks for completions."""


def script(shell: str) -> str:
    """The script that switches completion on in a shell."""
    return get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell)


def prepare() -> None:
    """Let Typer answer if a shell asks for completions."""
    if VARIABLE in os.environ:
        completion_init()


def of(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """A function that returns the names that begin with the typed letters."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]
