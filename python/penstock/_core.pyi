"""What the extension module offers: conversions around the Rust crates, and nothing that decides."""

from collections.abc import Sequence
from os import PathLike
from typing import final

from penstock._types import Algorithm, ConsensusRelays, Estimate, Head, NetworkFacts, PairCounts, RunStats

__all__ = [
    "Cancelled",
    "Control",
    "Document",
    "OutputError",
    "Paths",
    "PenstockError",
    "Replay",
    "ScenarioError",
    "algorithms",
    "countries",
    "eras",
    "merge",
    "of_consensus",
    "presets",
    "run",
    "sample",
    "version",
    "workload_kinds",
    "workload_presets",
]

class PenstockError(Exception):
    """Anything that Penstock refuses or cannot do; its text is one sentence for the user."""

class ScenarioError(PenstockError):
    """A scenario that is wrong: the sentence names the place, the key and what would be right."""

class OutputError(PenstockError):
    """An output that cannot be written or read; the sentence names the file."""

class Cancelled(PenstockError):
    """A run that was stopped before its end."""

@final
class Document:
    """A scenario file, parsed and checked: all its variants, with the overrides of `--set`."""

    def __new__(
        cls, text: str, name: str, sets: Sequence[str] = ..., network: tuple[str, str] | None = None
    ) -> Document:
        """Parse `text`; `sets` are `key=value` with TOML values.

        `name` is the path of the file: errors show it, and `include` finds files in its folder.
        `network` is the text and the name of a network file, which goes over the scenario.
        """

    @staticmethod
    def sweep(
        text: str,
        name: str,
        sets: Sequence[str],
        only: Sequence[str],
        points: Sequence[tuple[str, Sequence[str]]],
        network: tuple[str, str] | None = None,
    ) -> Document:
        """The variants `only` (all if it is empty) at each of `points`: what it is called, and its `key=value`s."""

    def warnings(self) -> list[str]:
        """Sentences about parts of the file that will not work in the next release, such as old keys."""

    def variants(self) -> list[tuple[str, str]]:
        """Name and label of each variant, in the order of the file."""

    def seeds(self) -> list[int]:
        """The seeds that the file lists."""

    def networks(self) -> list[int]:
        """Seeds of the networks that each run is done in; none if each seed draws its own."""

    def head(self) -> Head:
        """What the scenario stands for."""

    def resolved(self, variant: str) -> str:
        """One variant as TOML with every default filled in."""

    def changes(self, variant: str) -> list[float]:
        """When something changes while a variant runs [s], in the order of time; a node each."""

    def fingerprint(self) -> str:
        """A name for everything that results depend on, apart from seeds and version."""

    def optimistic(self, variant: str) -> bool:
        """Whether some client of a variant sends its request right after BEGIN."""

    def estimate(self, variant: str) -> Estimate:
        """About how much work a run of one variant is."""

    def describe(self) -> str:
        """The scenario explained to a person, in a few lines."""

@final
class Control:
    """A handle on a run in another thread."""

    def __new__(cls) -> Control: ...
    def cancel(self) -> None:
        """Stop the run soon; it then raises `Cancelled`."""

    def progress(self) -> tuple[float, float]:
        """Simulated time so far [s], and the finished share of the run in [0, 1]."""

@final
class Paths:
    """Pairs of circuits through the network of a consensus document."""

    def __new__(cls, text: bytes, name: str, seed: int) -> Paths:
        """Read the document `text`; `name` is what errors call it; `seed` is of all circuits."""

    def network(self) -> NetworkFacts:
        """What the document says, and how many relays are drawn for each position."""

    def advance(self, pairs: int) -> None:
        """Draw so many pairs more; releases the GIL."""

    def counts(self) -> PairCounts:
        """Of how many pairs so far something was true."""

@final
class Replay:
    """The downloads of an earlier run, as one variant asks for them again."""

    def __new__(
        cls,
        document: Document,
        variant: str,
        rows: Sequence[tuple[str, str, int, int, str, str, str, int, int]],
    ) -> Replay:
        """Of client, workload, circuit, when it was begun [ns], its relays, when that was asked [ns], how much [B]."""

def run(
    document: Document,
    variant: str,
    network: int | None,
    seed: int,
    part_dir: str | PathLike[str],
    control: Control,
    replay: Replay | None = None,
) -> RunStats:
    """Run one variant with one seed and write its five tables into `part_dir`, which exists; releases the GIL.

    The network is drawn by the seed `network`, or without one by the run's own. With a replay its requests take the
    place of the clients' loops.
    """

def merge(parts: Sequence[str | PathLike[str]], out_dir: str | PathLike[str]) -> None:
    """Join the tables of `parts`, in this order, into the five tables of `out_dir`; releases the GIL."""

def algorithms() -> list[Algorithm]:
    """What is known of every algorithm."""

def workload_kinds() -> list[tuple[str, str]]:
    """The key that chooses it and one line of description, of everything that a client can do."""

def workload_presets() -> list[tuple[str, str]]:
    """Name and one line of description of every named workload."""

def presets() -> list[tuple[str, str]]:
    """Name and one line of description of every named bundle of settings."""

def of_consensus(text: bytes, name: str, descriptors: Sequence[tuple[bytes, str]]) -> ConsensusRelays:
    """The relays of a consensus that clients draw, with what documents of descriptors (text, name) say of them."""

def sample(relays: Sequence[tuple[bool, bool, int]], count: int, seed: int) -> list[int]:
    """The places, growing, of `count` of relays (guard, exit, weight); all if there are no more."""

def eras() -> list[tuple[str, int, int, int]]:
    """Year, number of relays, mean link and mean capacity [B/s] of each era."""

def countries() -> list[str]:
    """The codes of the countries that scenarios know, in the order of the alphabet."""

def version() -> str:
    """The version of Penstock."""
