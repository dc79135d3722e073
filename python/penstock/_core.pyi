"""The extension module. It converts values for the Rust crates and makes no decisions."""

from collections.abc import Sequence
from os import PathLike
from typing import final

from penstock._types import Algorithm, ConsensusRelays, Estimate, Head, NetworkFacts, PairCounts, RunStats, Sampled

__all__ = [
    "Cancelled",
    "Control",
    "Descriptors",
    "Document",
    "OutputError",
    "PathHistory",
    "Paths",
    "PenstockError",
    "Replay",
    "ScenarioError",
    "Signals",
    "Violation",
    "algorithms",
    "compiled",
    "consensus_period",
    "cores",
    "countries",
    "eras",
    "merge",
    "of_consensus",
    "plugins",
    "presets",
    "run",
    "sample",
    "sample_era",
    "sample_places",
    "version",
    "workload_kinds",
    "workload_presets",
]

class PenstockError(Exception):
    """The base of all errors of Penstock. The text of an error is one sentence for the user."""

class ScenarioError(PenstockError):
    """A mistake in a scenario. The text names the line, the key and the remedy."""

class OutputError(PenstockError):
    """A file or directory that cannot be written or read. The text names it."""

class Cancelled(PenstockError):
    """A run that was stopped before its end."""

class Violation(Exception):
    """The other end of a circuit broke the protocol. A prototype raises it to close the circuit."""

@final
class Signals:
    """The measurements of a circuit's end."""

    @property
    def queue(self) -> int:
        """Cells in the circuit's queue."""

    @property
    def outbuf(self) -> int:
        """Bytes in the output buffer of the circuit's channel."""

    @property
    def blocked(self) -> bool:
        """Whether the queue reached its high mark and has not yet fallen to its low mark."""

    @property
    def marked(self) -> int:
        """The number of congestion marks that the SENDME reports."""

@final
class Document:
    """A parsed and checked scenario file with all variants, after the overrides of `--set`."""

    def __new__(
        cls, text: str, name: str, sets: Sequence[str] = ..., network: tuple[str, str] | None = None
    ) -> Document:
        """Parse `text`; `sets` are `key=value` with TOML values.

        `name` is the path of the file: errors show it, and `include` finds files in its folder.
        `network` is the text and the name of a network file, whose keys replace those of the scenario.
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
        """The variants `only` (all if it is empty) at each of `points`, which are names and `key=value` overrides."""

    def warnings(self) -> list[str]:
        """Sentences about parts of the file that will not work in the next release, such as old keys."""

    def variants(self) -> list[tuple[str, str]]:
        """Name and label of each variant, in the order of the file."""

    def prototypes(self) -> list[tuple[str, str]]:
        """Key and name of each Python class that a variant selects as algorithm."""

    def seeds(self) -> list[int]:
        """The seeds that the file lists."""

    def networks(self) -> list[int]:
        """The seeds of the networks; empty if each seed samples its own network."""

    @staticmethod
    def title(text: str, name: str) -> str:
        """The title of a scenario, without reading the rest of the file. The arguments are those of the class."""

    def head(self) -> Head:
        """The title, and the paper's section and figures."""

    def resolved(self, variant: str) -> str:
        """One variant as TOML with every default filled in."""

    def changes(self, variant: str) -> list[float]:
        """The times of a variant's changes in order [s], one for each changed node."""

    def fingerprint(self) -> str:
        """A digest of everything that determines the results, except seeds and version."""

    def places(self) -> tuple[bool, str] | None:
        """Whether the network's places are generated, and the environment or the file that they come from."""

    def optimistic(self, variant: str) -> bool:
        """Whether a client of the variant sends its request immediately after BEGIN."""

    def sampled(self, variant: str, network: int) -> Sampled:
        """A variant in the network with this seed: its nodes with their software, workloads and delays."""

    def estimate(self, variant: str) -> Estimate:
        """The estimated work of one run of a variant."""

    def hosts(self, variant: str) -> int:
        """The number of relays, clients and servers of a variant."""

    def describe(self) -> str:
        """An explanation of the scenario, in a few lines of text."""

@final
class Control:
    """Observes and cancels a run in another thread."""

    def __new__(cls, threads: int = 1) -> Control:
        """The control of one run, which uses this many threads. The number does not affect the results."""

    def cancel(self) -> None:
        """Stop the run soon; it then raises `Cancelled`."""

    def cpu_seconds_of_others(self) -> float:
        """The processor time of the run's additional threads, after the run [s]."""

    def progress(self) -> tuple[float, float]:
        """Simulated time so far [s], and the finished share of the run in [0, 1]."""

@final
class Descriptors:
    """Server descriptors and microdescriptors of relays."""

    def __new__(cls) -> Descriptors:
        """No descriptors."""

    def read(self, text: bytes, name: str) -> None:
        """Add the descriptors of the document `text`, which errors call `name`; releases the GIL."""

    def has_bandwidths(self) -> bool:
        """Whether there is a server descriptor, which has a bandwidth."""

@final
class PathHistory:
    """Circuits of clients over several consensuses."""

    def __new__(cls, clients: int, every: int, seed: int) -> PathHistory:
        """Clients that need a new circuit every `every` seconds."""

    def advance(
        self, text: bytes, name: str, descriptors: Descriptors | None
    ) -> tuple[NetworkFacts, list[str], tuple[list[int], list[int], list[int], list[int], list[int]]]:
        """Sample the circuits of the next consensus; releases the GIL.

        Returns a summary, the names of the relays, and of all circuits the time [s since 1970], the client, and the
        guard, middle and exit as places in the list of names.
        """

    def used_guards(self) -> dict[int, int]:
        """The number of clients by the number of guards that they have used."""

    def failures(self) -> int:
        """The number of circuits that were sampled again, because no relay was compatible with the others."""

@final
class Paths:
    """Pairs of circuits through the network of a consensus document."""

    def __new__(cls, text: bytes, name: str, seed: int, descriptors: Descriptors | None) -> Paths:
        """Read the document `text`, which errors call `name`; `seed` samples the circuits."""

    def network(self) -> NetworkFacts:
        """A summary of the document, with the number of relays for each position."""

    def advance(self, pairs: int) -> None:
        """Sample this many further pairs; releases the GIL."""

    def counts(self) -> PairCounts:
        """The numbers of pairs so far that share a relay, socket or connection."""

@final
class Replay:
    """The downloads of an earlier run, which a variant repeats."""

    def __new__(
        cls,
        document: Document,
        variant: str,
        rows: Sequence[tuple[str, str, int, int, str, str, str, int, int]],
    ) -> Replay:
        """Rows of client, workload, circuit, its start [ns], guard, middle, exit, request time [ns] and size [B]."""

def run(
    document: Document,
    variant: str,
    network: int | None,
    seed: int,
    part_dir: str | PathLike[str],
    control: Control,
    replay: Replay | None = None,
) -> RunStats:
    """Run one variant with one seed and write its tables into `part_dir`, which exists; releases the GIL.

    The seed `network` samples the network; without it, the run's seed does. The requests of a replay replace the
    clients' loops.
    """

def merge(parts: Sequence[str | PathLike[str]], out_dir: str | PathLike[str]) -> None:
    """Join the tables of `parts`, in this order, into the tables of `out_dir`; releases the GIL."""

def algorithms() -> list[Algorithm]:
    """All algorithms with their parameters."""

def plugins() -> list[tuple[str, str]]:
    """Key and name of each algorithm of another crate, which `penstock build` linked."""

def workload_kinds() -> list[tuple[str, str]]:
    """The kinds of workloads: the key that chooses each, and one line of description."""

def workload_presets() -> list[tuple[str, str]]:
    """The named workloads, each with one line of description."""

def presets() -> list[tuple[str, str]]:
    """The presets of relays and clients, each with one line of description."""

def of_consensus(text: bytes, name: str, descriptors: Descriptors | None) -> ConsensusRelays:
    """The relays of a consensus that clients may choose, with data of descriptors."""

def consensus_period(text: bytes, name: str) -> tuple[int, int]:
    """The times from which and until which clients use a consensus [s since 1970]; `text` may be its beginning."""

def sample(relays: Sequence[tuple[bool, bool, int]], count: int, seed: int) -> list[int]:
    """The positions of `count` sampled relays in the list (guard, exit, weight), in order; at most all."""

def sample_era(year: str, count: int, seed: int) -> list[tuple[bool, bool, int, int, int]] | None:
    """Relays of an era: guard, exit, link, bucket rate and weight [B/s]; none for an unknown year."""

def sample_places(
    environment: str, seed: int
) -> tuple[list[tuple[str, float, int | None, int | None]], list[list[float]]] | None:
    """Places of an environment: name, loss, receiving and sending rate [B/s]; latencies [s]; none if it is unknown."""

def eras() -> list[tuple[str, int, int, int]]:
    """Year, number of relays, mean link and mean capacity [B/s] of each era."""

def countries() -> list[str]:
    """The codes of the countries that scenarios accept, in alphabetical order."""

def cores() -> int:
    """The number of cores that this process may use, from its affinity mask and the CPU quota of its cgroups."""

def version() -> str:
    """The version of Penstock with its commit, such as `0.1.0+g1234567`."""

def compiled() -> tuple[str, str]:
    """The platform for which Penstock was compiled, and the compiler."""
