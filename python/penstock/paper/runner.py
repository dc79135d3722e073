"""Running a paper: an output directory for each of its scenarios, and a verdict on each of its claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock import _core, catalog, runs
from penstock.errors import Cancelled, OutputError, PenstockError, naming
from penstock.output import Job, fresh, read_json, read_manifest, write_json
from penstock.paper.claims import Claim, Claims, load
from penstock.paper.measures import MEASURES
from penstock.paper.verdicts import Checked, decide, undecidable, unit_of
from penstock.progress import Silent, Watch
from penstock.result import Result

RUNS = 5
"""Seeds of every scenario, if nobody says how many."""

VERDICTS = "claims.json"
"""What a paper's directory is known by."""

Watching = Callable[[str], AbstractContextManager[Watch]]


@dataclass(frozen=True)
class Outcome:
    """What running a paper left behind."""

    claims: Claims
    directory: Path
    checked: list[Checked]
    results: dict[str, Result]
    """The outputs of the scenarios that were run, by their names in the claims file."""
    scale: float
    figure: str | None

    @property
    def missed(self) -> list[Checked]:
        """The gated claims that were not shown to hold."""
        return [each for each in self.checked if each.missed]


def run(
    name: str,
    *,
    figure: str | None = None,
    scale: float = 1.0,
    seeds: int = RUNS,
    out: str | Path | None = None,
    watching: Watching | None = None,
) -> Outcome:
    """Run the scenarios that a paper's claims are about, and judge the claims.

    Args:
        name: a shipped paper, or a folder with a claims file.
        figure: only claims about this figure, and only the variants that they compare.
        scale: shrinks or stretches what the claims file says a scenario can be scaled by.
        seeds: how many, from the first of each scenario upwards.
        out: the paper's directory, with one below it for each scenario; `runs/paper-<name>-<n>` if there is none.
        watching: makes somebody who wants to know how far the runs of a scenario are.

    Raises:
        PenstockError: if the claims, a scenario or what is asked for is wrong, or a directory is refused.
        Cancelled: on Ctrl-C; finished runs are kept.
    """
    claims = load(name)
    chosen = claims.of(figure)
    first = {claim.id: undecidable(claim, claims.has) for claim in chosen}
    needed: dict[str, list[Claim]] = {}
    for claim in chosen:
        if first[claim.id] is None:
            for scenario in claim.scenarios:
                needed.setdefault(scenario, []).append(claim)
    sets = {scenario: scaled(claims, scenario, scale) for scenario in needed}
    for scenario, about in needed.items():
        _check_variants(claims, scenario, about)
    directory = _directory(claims, out, scale)
    results = {}
    for scenario, about in needed.items():
        wanted = {variant for claim in about for variant in claim.variants_in(scenario)}
        where = directory / scenario
        with (watching or _nobody)(claims.scenario(scenario)) as watch:
            try:
                results[scenario] = _one(claims.scenario(scenario), wanted, sets[scenario], seeds, where, watch)
            except Cancelled:
                raise Cancelled(
                    f"stopped: finished runs are kept, and the same command with --out {directory} does the rest"
                ) from None
    checked = [first[claim.id] or decide(claim, results) for claim in chosen]
    return Outcome(claims, directory, checked, results, scale, figure)


def write(outcome: Outcome) -> Outcome:
    """Put `claims.json` into the paper's directory, when the figures are drawn; returns claims with their evidence."""
    checked = [replace(each, evidence=_evidence(each.claim, outcome)) for each in outcome.checked]
    document = {
        **_head(outcome.claims, outcome.scale),
        "finished": True,
        "figure": outcome.figure,
        "claims": [_entry(each) for each in checked],
    }
    write_json(outcome.directory / VERDICTS, document)
    return replace(outcome, checked=checked)


def scaled(claims: Claims, scenario: str, scale: float) -> tuple[str, ...]:
    """The overrides that scale a scenario."""
    if scale == 1:
        return ()
    if not (math.isfinite(scale) and scale > 0):
        raise PenstockError(f"--scale is {scale}; it takes a number above 0, like 0.1")
    what = claims.scale.get(scenario)
    if not what:
        raise PenstockError(f"{claims.scenario(scenario)} has nothing that --scale could scale: leave it out")
    sets = []
    if "downloads" in what:
        sets.append(f"run.stop.downloads={max(1, round(what['downloads'] * scale))}")
    if "duration_s" in what:
        sets.append(f'run.duration="{max(1, round(what["duration_s"] * scale))} s"')
    return tuple(sets)


def _check_variants(claims: Claims, scenario: str, about: Sequence[Claim]) -> None:
    """Whether the scenario has what the claims compare; a mistake in the claims file, which no run should wait for."""
    _, document = catalog.load(claims.scenario(scenario))
    known = [name for name, _ in document.variants()]
    for claim in about:
        for variant in sorted(claim.variants_in(scenario)):
            if variant not in known:
                raise PenstockError(
                    f"claim {claim.id}: {claims.scenario(scenario)} has no variant {variant!r}; "
                    f"it has {', '.join(known)}"
                )


def _one(name: str, variants: set[str], sets: tuple[str, ...], seeds: int, where: Path, watch: Watch) -> Result:
    """The output of one scenario: as it is if it is finished, else with what is missing."""
    manifest = read_manifest(where)
    if manifest is None or not manifest["finished"]:
        many = _many(catalog.load(name, sets)[1], seeds)
        replicates, seeds_of_each = many["networks"], many["runs"]
        return runs.run(
            name, variants=sorted(variants), sets=sets, runs=seeds_of_each, networks=replicates, out=where, watch=watch
        )
    _, document = catalog.load(name, sets)
    jobs = runs.plan(document, sorted(variants), None, **_many(document, seeds))
    same = manifest["scenario"]["fingerprint"] == document.fingerprint() and manifest["version"] == _core.version()
    there = {Job.of(run) for run in manifest["runs"]}
    if not same or not all(job in there for job in jobs):
        what = "fewer variants or seeds" if same else "another scenario, scale or version"
        raise OutputError(f"{where} is finished, with {what} than now asked for: choose another --out")
    return Result(where)


def _many(document: _core.Document, replicates: int) -> dict[str, int | None]:
    """So many independent runs: networks where the scenario has some, each with the first seed, and else seeds."""
    return {"networks": replicates, "runs": 1} if document.networks() else {"networks": None, "runs": replicates}


def _directory(claims: Claims, out: str | Path | None, scale: float) -> Path:
    """The paper's directory: a fresh one, or one of the same paper and scale to go on with."""
    directory = fresh(f"paper-{claims.paper}") if out is None else Path(out)
    head = _head(claims, scale)
    path = directory / VERDICTS
    with naming(directory, "make"):
        if path.is_file():
            earlier = read_json(path)
            for key in ("paper", "scale"):
                if earlier.get(key) != head[key]:
                    raise OutputError(
                        f"{directory} holds {key} {earlier.get(key)}, not {head[key]}: choose another --out"
                    )
            return directory
        if directory.exists() and any(directory.iterdir()):
            raise OutputError(f"{directory} exists and is not of penstock paper: choose another --out")
        directory.mkdir(parents=True, exist_ok=True)
    write_json(path, {**head, "finished": False, "figure": None, "claims": []})
    return directory


def _head(claims: Claims, scale: float) -> dict[str, Any]:
    return {"version": _core.version(), "paper": claims.paper, "title": claims.title, "scale": scale}


def _evidence(claim: Claim, outcome: Outcome) -> tuple[str, ...]:
    """The table that a claim was measured in and the figures that show it, as far as they are there."""
    there = [scenario for scenario in claim.scenarios if scenario in outcome.results]
    if not there:
        return ()
    measure = MEASURES[claim.measure]
    files = [f"{measure.table}.parquet", *(f"figures/{name}.png" for name in measure.figures)]
    paths = [f"{scenario}/{file}" for scenario in there for file in files]
    return tuple(path for path in paths if (outcome.directory / path).is_file())


def _entry(checked: Checked) -> dict[str, Any]:
    """A claim as `claims.json` has it; null where there is no number."""
    claim, gate = checked.claim, checked.claim.gate
    return {
        "id": claim.id,
        "figure": claim.figure,
        "section": claim.section,
        "says": claim.says,
        "scenario": " ".join(claim.scenarios),
        "variants": claim.variants,
        "measured": _finite(checked.measured),
        "unit": unit_of(claim),
        "interval": None if math.isnan(checked.low) else [checked.low, checked.high],
        "n": checked.n,
        "seeds": list(checked.seeds),
        "units": checked.replicates,
        "gate": gate and {key: value for key, value in vars(gate).items() if value is not None},
        "verdict": checked.verdict,
        "reason": checked.reason,
        "evidence": list(checked.evidence),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _nobody(_what: str) -> AbstractContextManager[Watch]:
    return nullcontext(Silent())
