"""The downloads of an output of Penstock, one run at a time, for exports to the formats of other tools."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import polars as pl

from penstock.errors import OutputError, naming
from penstock.result import Result
from penstock.summary import after_warmup


@dataclass(frozen=True)
class Run:
    """One run of an output."""

    variant: str
    network: str
    seed: int
    begun: pl.DataFrame
    """The rows of `transfers` after the warm-up."""

    @property
    def name(self) -> str:
        """The name of the run in its variant: its seed, after its network if it has one."""
        return f"{self.network}-{self.seed}" if self.network else str(self.seed)

    @property
    def where(self) -> pl.Expr:
        """The condition for the rows of the run in a table of the output."""
        return _where(self.variant, self.network, self.seed)

    def folder(self, out: Path) -> Path:
        """The folder of the run's variant in the directory `out`."""
        return out / quote(self.variant, safe=" ,+=")


def read(directory: Path, out: Path) -> tuple[Result, list[Run]]:
    """The output in `directory`, and its runs, for an export to the new directory `out`.

    Raises:
        OutputError: if the directory is no output, the times of its requests are unknown, or `out` exists.
    """
    result = Result(directory)
    with naming(out, "make"):
        if out.exists():
            raise OutputError(f"{out} exists; choose another --out")
    runs = [(run["variant"], run["network"], run["seed"]) for run in result.manifest["runs"]]
    optimistic = {each["name"] for each in result.scenario["variants"] if each.get("optimistic")}
    for variant, _, _ in runs:
        if variant in optimistic:
            raise OutputError(
                f"{variant} has optimistic data, so the times of its requests are unknown, and the export needs them"
            )
    begun = after_warmup(result.transfers)
    return result, [Run(*run, begun.filter(_where(*run))) for run in runs]


def _where(variant: str, network: str, seed: int) -> pl.Expr:
    return pl.col("variant").eq(variant) & pl.col("network").eq(network) & pl.col("seed").eq(seed)
