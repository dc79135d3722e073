"""Functions of the package that do what commands do, for scripts and notebooks.

Their names differ from those of the modules `paper`, `compare` and `figures`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import catalog, extras, facts, listing
from penstock.errors import PenstockError, ScenarioError
from penstock.overrides import Sets, typed
from penstock.result import Result

if TYPE_CHECKING:
    from penstock.compare.sides import Comparison
    from penstock.figures import Picture
    from penstock.paper.runner import Outcome


def check(scenario: str | Path, *, sets: Sets = (), network: str | Path | None = None) -> dict[str, Any]:
    """A scenario's title, seeds and variants with their estimated costs, as `penstock check --json`; runs nothing.

    Raises:
        ScenarioError: if the scenario or an override is wrong.
    """
    name, document = catalog.load(scenario, typed(sets), network)
    return facts.scenario(name, document)


def entries(what: str = "scenarios", name: str | None = None) -> list[dict[str, Any]]:
    """The entries of a list, as `penstock list --json`.

    `what` is `scenarios`, `papers`, `attacks`, `algorithms`, `presets`, `workloads` or `networks`. `name` selects
    algorithms.

    Raises:
        ScenarioError: if there is no such list.
        PenstockError: if there is no such algorithm.
    """
    if what not in listing.KINDS:
        raise ScenarioError(f"there is no list {what!r}; there are {', '.join(listing.KINDS)}")
    found: list[dict[str, Any]] = facts.lists([what], name)[what]
    return found


def run_paper(
    name: str,
    *,
    figure: str | None = None,
    scenario: str | None = None,
    variants: Sequence[str] = (),
    scale: float = 1.0,
    sets: Sets = (),
    runs: int = 5,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> "Outcome":
    """Run a paper's experiments and check its claims, as `penstock paper`; also writes its report.

    Raises:
        PenstockError: if the claims, a scenario or an option is wrong, or a directory is refused.
    """
    from penstock.paper import runner
    from penstock.report import write

    outcome = runner.run(
        name, figure=figure, scenario=scenario, variants=variants, scale=scale, sets=typed(sets), seeds=runs, out=out,
        jobs=jobs, ray=ray,
    )  # fmt: skip
    write(outcome.shown, outcome.directory / "report.html", outcome)
    return runner.write(outcome)


def compare_outputs(
    a: str | Path,
    b: str | Path,
    *,
    workloads: Sequence[str] = (),
    clock: Literal["start", "request"] | None = None,
    skip: float = 0.0,
) -> "Comparison":
    """Compare the downloads of two outputs, ours or other tools', as `penstock compare`; writes nothing.

    `skip` ignores another tool's downloads that began within this time after the first one [s].

    Raises:
        PenstockError: if a source is wrong, or if both have no kind of downloads in common.
    """
    from penstock.compare import compare
    from penstock.compare.find import read

    first, second = (read(str(spec), workloads=workloads, skip=skip) for spec in (a, b))
    return compare(first, second, clock)


def draw_figures(result: Result) -> "list[Picture]":
    """Draw all figures of an output into its folder `figures`. A notebook shows each of them.

    Raises:
        PenstockError: if matplotlib is missing.
    """
    if not extras.has_plots():
        raise PenstockError(extras.NO_FIGURES)
    from penstock import figures

    return figures.draw(result)
