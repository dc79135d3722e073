"""Ctrl-C: runs are stopped and kept, anything else is left where it stands.

An exception is right where there is something to keep. Elsewhere it could come up in the middle of an import or of a
library's own callback, which swallow it or print what they think of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPPED = 130
"""Exit status after Ctrl-C, as shells give it."""


def leave(_signal: int = signal.SIGINT, _frame: FrameType | None = None) -> NoReturn:
    """End the process now, with one sentence."""
    os.write(2, b"penstock: stopped\n")
    os._exit(STOPPED)


def leave_on_interrupt() -> None:
    """From now on Ctrl-C ends the process, unless whoever started it wants it to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


@contextmanager
def raised() -> Iterator[None]:
    """Ctrl-C is an exception in here."""
    if signal.getsignal(signal.SIGINT) is not leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, leave)
