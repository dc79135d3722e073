"""The identity of this build: its version with the commit, and the platform and libraries that it uses."""

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock import _core

if TYPE_CHECKING:
    from penstock.prototypes import Found

LIBRARIES = ("matplotlib", "numpy", "polars", "pydantic", "scipy")
"""The libraries of statistics and figures. Without the extra `plots`, matplotlib is missing."""


def build(prototypes: Iterable["Found"] = ()) -> dict[str, Any]:
    """The platform and the libraries of this process, for manifests. Packages with prototypes are libraries."""
    from importlib.metadata import PackageNotFoundError, version

    libraries: dict[str, str] = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            libraries[name] = version(name)
    libraries.update({each.distribution: each.version for each in prototypes})
    target, compiler = _core.compiled()
    system = os.uname()
    return {
        "target": target,
        "compiler": compiler,
        "platform": f"{system.sysname} {system.release} {system.machine}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "libraries": libraries,
    }


def text(of: Mapping[str, Any]) -> str:
    """A build in one line, such as `Linux 6.18 x86_64, Python 3.11.7, numpy 2.4.6`."""
    libraries = (f"{name} {number}" for name, number in of.get("libraries", {}).items())
    parts = [of.get("platform", ""), f"Python {of.get('python', '')}", of.get("compiler", ""), *libraries]
    return ", ".join(part for part in parts if part)


def one_line() -> str:
    """The output of `penstock --version`."""
    return f"penstock {_core.version()}"


def facts(*, as_json: bool = False) -> str:
    """The output of `penstock version`."""
    if as_json:
        import json

        return json.dumps({"version": _core.version(), **build()}, indent=2)
    return f"{one_line()}\n{text(build())}"
