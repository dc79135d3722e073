"""Ctrl-C stops runs and keeps the finished runs. All other commands end immediately.

An exception is raised only where there is something to keep. Elsewhere it could occur inside an import or a callback
of a library, which may ignore or print it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPPED = 130
"""The exit status after Ctrl-C, which shells also use."""


def leave(_signal: int = signal.SIGINT, _frame: FrameType | None = None) -> NoReturn:
    """End the process now, with one sentence."""
    os.write(2, b"penstock: stopped\n")
    os._exit(STOPPED)


def leave_on_interrupt() -> None:
    """Let Ctrl-C end the process, unless the parent process ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


@contextmanager
def raised() -> Iterator[None]:
    """Ctrl-C raises an exception inside this context."""
    if signal.getsignal(signal.SIGINT) is not leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, leave)
