"""The identity of this build."""

from penstock import _core


def one_line() -> str:
    """The output of `penstock version`."""
    return f"penstock {_core.version()}"
