"""The choice of the extension module: the environment variable PENSTOCK_EXTENSION names one of `penstock build`."""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

VARIABLE = "PENSTOCK_EXTENSION"
NAME = "penstock._core"
RECORD = "build.json"
"""The file beside the extension module that names the build to which it belongs."""


class ExtensionError(ImportError):
    """The extension module that PENSTOCK_EXTENSION names cannot be used."""


class _Finder(MetaPathFinder):
    """Finds the extension module at the path in the environment variable."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The chosen module; None for every other module."""
        del target
        chosen = os.environ.get(VARIABLE)
        if fullname != NAME or not chosen:
            return None
        # Not imported by commands without the variable, which would start later.
        import json
        from importlib.util import spec_from_file_location

        file = Path(chosen)
        try:
            record = json.loads((file.parent / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ExtensionError(
                f"{VARIABLE} is {str(file)!r}, which is not an extension of penstock build; correct or unset it"
            ) from None
        if not file.is_file() or record.get("belongs_to") != belongs_to(path):
            raise ExtensionError(
                f"{VARIABLE} names an extension of another build of Penstock; run `{record.get('command')}` again"
            )
        return spec_from_file_location(NAME, file)


def belongs_to(path: Sequence[str] | None) -> list[int]:
    """Size [B] and time of change [ns] of the ordinary extension module. They change with each installation."""
    ordinary = PathFinder.find_spec(NAME, path)
    if ordinary is None or ordinary.origin is None:
        return []
    state = Path(ordinary.origin).stat()
    return [state.st_size, state.st_mtime_ns]


def prepare() -> None:
    """Let PENSTOCK_EXTENSION decide which extension module the package imports."""
    if os.environ.get(VARIABLE) and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
