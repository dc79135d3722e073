"""Algorithms as Python classes, for small scenarios.

A package declares its classes in the entry-point group `penstock.algorithms`. The name of an entry point is the name of
the algorithm in scenario files. The base class decides the key: `EdgeControl` or `CircuitPolicy`.

Times are whole nanoseconds, sizes are whole bytes, and rates are whole bytes per second. Each end of a circuit, or each
channel, has an object of its own. Keep all state in the object: other runs of this process share the class.
"""

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from penstock._core import Document, PenstockError, Signals, Violation, version

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "CircuitPolicy",
    "EdgeControl",
    "Parameter",
    "Signals",
    "Violation",
    "flag",
    "fraction",
    "rate",
    "size",
    "time",
    "whole",
]

GROUP = "penstock.algorithms"
"""The entry-point group of prototypes."""

PYTHON = ".python."
"""In a version, this text stands between Penstock's own version and the packages with prototypes."""


class Parameter(NamedTuple):
    """A parameter of an algorithm, with its default as in a scenario file."""

    kind: str
    default: str
    unit: str
    meaning: str


def size(default: str, meaning: str) -> Parameter:
    """A size above zero, such as `8 KiB`. The class gets bytes."""
    return Parameter("size", default, "", meaning)


def time(default: str, meaning: str) -> Parameter:
    """A time above zero, such as `5 ms`. The class gets nanoseconds."""
    return Parameter("time", default, "", meaning)


def rate(default: str, meaning: str) -> Parameter:
    """A rate, such as `5 KiB/s`. The class gets bytes per second."""
    return Parameter("rate", default, "", meaning)


def whole(default: int, unit: str, meaning: str) -> Parameter:
    """A whole number from 0, with its unit, such as `cell`."""
    return Parameter("whole", str(default), unit, meaning)


def fraction(default: float, meaning: str) -> Parameter:
    """A fraction from 0 to below 1."""
    return Parameter("fraction", repr(float(default)), "", meaning)


def flag(default: bool, meaning: str) -> Parameter:
    """True or false."""
    return Parameter("flag", str(default).lower(), "", meaning)


class _Prototype(ABC):
    """A class that scenario files select. Its docstring begins with one sentence for `penstock list`.

    The constructor gets the values of `parameters` as keywords. Its `ValueError` becomes an error of the scenario.
    """

    KEY: ClassVar[str]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Methods that are called only if a class has its own."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}


class EdgeControl(_Prototype):
    """Controls one end of a circuit. The packaging end limits DATA cells, and the delivering end sends SENDMEs.

    The two ends need not have the same algorithm, but both must count the same cells for a SENDME: stock Tor sends one
    for each 100 cells.
    """

    KEY = "edge_control"
    OPTIONAL = ("on_mark", "take_marks", "obeys_windows", "rtt", "smoothed_rtt")
    streams: ClassVar[Literal["windows", "xon-xoff", "none"]] = "windows"
    """The flow control of streams: windows of 500 cells, XON/XOFF of C tor 0.4.9, or none. Both ends need the same."""

    @abstractmethod
    def package_window(self) -> int | None:
        """How many more DATA cells may leave now; None is no limit."""

    @abstractmethod
    def on_package(self, now: int, signals: Signals) -> bool:
        """A DATA cell left. Returns whether this cell causes a SENDME at the other end."""

    @abstractmethod
    def on_deliver(self, now: int) -> bool:
        """A DATA cell arrived. Returns whether a SENDME is due. `Violation` closes the circuit."""

    @abstractmethod
    def on_sendme(self, now: int, signals: Signals) -> None:
        """A SENDME arrived. `Violation` closes the circuit."""

    @abstractmethod
    def window(self) -> int | None:
        """How many cells may be outstanding; None is no limit. Only for output."""

    def on_mark(self) -> None:
        """The DATA cell that is delivered next has a congestion mark."""

    def take_marks(self) -> int:
        """The number of marked cells that the due SENDME reports."""
        return 0

    def obeys_windows(self) -> bool:
        """Whether SENDMEs change the windows of the two ends."""
        return True

    def rtt(self) -> int | None:
        """The last round-trip time [ns]. Only for output."""
        return None

    def smoothed_rtt(self) -> int | None:
        """The smoothed round-trip time [ns], which compares linked circuits."""
        return self.rtt()


class CircuitPolicy(_Prototype):
    """Orders the circuits of one channel. A circuit is a whole number, which a later circuit can have again."""

    KEY = "circuit_policy"

    @abstractmethod
    def on_ready(self, now: int, circuit: int) -> None:
        """A circuit may send from now on."""

    @abstractmethod
    def on_blocked(self, now: int, circuit: int) -> None:
        """A circuit may not send until the next `on_ready`."""

    @abstractmethod
    def on_flush(self, now: int, circuit: int, cells: int, weight: float) -> None:
        """Cells of a circuit left. `weight` is the charge for each of them, 1 for an ordinary cell."""

    @abstractmethod
    def on_close(self, circuit: int) -> None:
        """A circuit closed."""

    @abstractmethod
    def head(self, now: int) -> tuple[float, int]:
        """The priority and the number of the circuit that sends next. The lowest value is first.

        Called only if a circuit may send.
        """


class _Declared(NamedTuple):
    """A parameter for the extension module."""

    name: str
    kind: str
    default: str
    unit: str
    meaning: str


class Found(NamedTuple):
    """A class that an entry point names."""

    key: str
    name: str
    meaning: str
    source: str
    streams: str
    overridden: list[str]
    parameters: list[_Declared]
    target: type[_Prototype]
    distribution: str
    version: str
    files: tuple[Path, ...]
    """The Python files that the package installed."""

    @property
    def id(self) -> str:
        """The package, its version and a digest of its source, for the version of results."""
        return f"{self.distribution}.{self.version}.{_digest(self.target.__module__, self.files)}"


@cache
def found() -> list[Found]:
    """The prototypes of all installed packages.

    Raises:
        PenstockError: if an entry point cannot be imported or names no prototype.
    """
    from importlib.metadata import entry_points

    return [_found(each) for each in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value))]


def _found(entry: "EntryPoint") -> Found:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"
    which = f"the algorithm {entry.name} of {package}"
    remedy = "correct the package or uninstall it"
    try:
        target = entry.load()
    except (Exception, SystemExit) as error:
        raise PenstockError(f"{which} cannot be imported: {_text(error)}; {remedy}") from None
    if not (isinstance(target, type) and issubclass(target, EdgeControl | CircuitPolicy)):
        raise PenstockError(
            f"{which} is {entry.value}, which is not a class derived from EdgeControl or CircuitPolicy of "
            f"{__name__}; {remedy}"
        )
    if lacking := sorted(target.__abstractmethods__):
        raise PenstockError(f"{which} lacks the method {lacking[0]}; {remedy}")
    streams = getattr(target, "streams", "none")
    if streams not in ("windows", "xon-xoff", "none"):
        raise PenstockError(f"{which} has streams = {streams!r}; it must be 'windows', 'xon-xoff' or 'none'")
    if not isinstance(target.parameters, Mapping):
        raise PenstockError(f"{which} has parameters = {_short(target.parameters)}; it must be a mapping")
    for name, each in target.parameters.items():
        if not isinstance(each, Parameter):
            raise PenstockError(f"{which}: the parameter {name} is {each!r}; use a function such as whole or size")
        if not all(isinstance(field, str) for field in (name, *each)):
            raise PenstockError(
                f"{which}: the parameter {name} has the default {each.default!r} and the meaning {each.meaning!r}; "
                'write name, default and meaning as texts, such as size("8 KiB", "the limit")'
            )
    return Found(
        key=target.KEY,
        name=entry.name,
        meaning=(target.__doc__ or "").strip().partition("\n")[0] or entry.value,
        source=f"the Python class {entry.value} of {package}",
        streams=streams,
        overridden=[name for name in target.OPTIONAL if getattr(target, name) is not getattr(EdgeControl, name)],
        parameters=[_Declared(name, *each) for name, each in target.parameters.items()],
        target=target,
        distribution=entry.dist.name if entry.dist else "unknown",
        version=entry.dist.version if entry.dist else "0",
        files=tuple(
            Path(str(file.locate())) for file in (entry.dist and entry.dist.files) or () if file.suffix == ".py"
        ),
    )


def of(document: Document) -> list[Found]:
    """The prototypes that a scenario selects."""
    selected = document.prototypes()
    return [each for each in found() if (each.key, each.name) in selected] if selected else []


def version_with(prototypes: Iterable[Found]) -> str:
    """The version of results: that of Penstock, with the packages and digests of prototypes."""
    ids = sorted({each.id for each in prototypes})
    return version() + (PYTHON + ".".join(ids) if ids else "")


def without(version_of_results: str) -> str:
    """The version of Penstock in the version of results."""
    return version_of_results.partition(PYTHON)[0]


@cache
def _digest(module: str, installed: tuple[Path, ...]) -> str:
    """A digest of the source files of a module's package, and of those that were installed with it."""
    top = sys.modules[module.partition(".")[0]]
    roots = [Path(root) for root in getattr(top, "__path__", ())]
    files = [(path, path.relative_to(root.parent)) for root in roots for path in root.rglob("*.py")]
    own = Path(top.__file__ or "")
    beside = installed if own in installed else (own,)
    files += [(path, Path(path.name)) for path in beside]
    digest = hashlib.sha256()
    for name, path in sorted({(str(name), path) for path, name in files}):
        digest.update(name.encode() + b"\0")
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:8]


def sentence(target: type, method: str, error: BaseException) -> str:
    """The sentence for an exception of a prototype: class, method, and the last line in the class's own file."""
    own = getattr(sys.modules.get(target.__module__), "__file__", None)
    place, trace = "", error.__traceback__
    while trace is not None:
        here = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        if trace.tb_frame.f_code.co_filename == own or not place:
            place = here
        trace = trace.tb_next
    return f"{_name(target)}.{method} failed{f' at {place}' if place else ''}: {_text(error)}"


def wrong(target: type, method: str, value: object, wanted: str) -> str:
    """The sentence for a value of a wrong type that a method returned."""
    code = getattr(getattr(target, method), "__code__", None)
    place = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{_name(target)}.{method}{place} returned {_short(value)}; it must return {wanted}"


def _name(target: type) -> str:
    return f"{target.__module__}.{target.__qualname__}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")


def _short(value: object) -> str:
    try:
        text: Any = repr(value)
    except Exception:
        text = "a value"
    return f"{text[:60]} of type {type(value).__name__}"
