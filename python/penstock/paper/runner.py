"""Runs a paper: an output directory for each of its scenarios, and a verdict on each of its claims."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from penstock import _core, catalog, fits, generated, prototypes, ray_runs, runs
from penstock.errors import Cancelled, OutputError, PenstockError, naming
from penstock.estimates import Confirm, Cost
from penstock.output import Job, fresh, read_json, read_manifest, same_replay, write_json
from penstock.paper import sensitivity, tradeoffs
from penstock.paper.claims import Claim, Claims, load
from penstock.paper.measures import MEASURES
from penstock.paper.plan import Experiment, check_rows, plan
from penstock.paper.verdicts import Checked, decide, undecidable, unit_of
from penstock.progress import Watch
from penstock.ray_runs import Cluster
from penstock.replay import Record
from penstock.result import Result

RUNS = 5
"""The default number of seeds, or networks."""

VERDICTS = "claims.json"
"""The file with the verdicts; only the directory of a paper has it."""

TRADEOFFS = "tradeoffs.csv"
"""The file with all cells of a table of trade-offs, in the directory of its scenario."""

SENSITIVITY = "sensitivity.csv"
"""The file with the cells of all settings, in the directory of a paper."""

Watching = Callable[[str], AbstractContextManager[Watch]]


@dataclass(frozen=True)
class Outcome:
    """The results of a paper's scenarios, and the verdicts."""

    claims: Claims
    directory: Path
    checked: list[Checked]
    results: dict[str, Result]
    """The outputs of the scenarios and settings that were run, by the names of their directories."""
    scale: float
    figure: str | None
    scenario: str | None
    variants: tuple[str, ...]
    """The variants that `--variant` selected."""
    made: str
    """Version, commit and date of the first run into the directory."""
    compared: Sequence[tradeoffs.Compared] = ()
    """The tables of trade-offs."""
    sensitive: sensitivity.Sensitive | None = None
    """The changes in each setting of the network."""
    sets: tuple[str, ...] = ()
    """The overrides of all scenarios."""

    @property
    def shown(self) -> list[Result]:
        """The outputs with a part of their own in the report: those of scenarios, not those of settings."""
        return [result for name, result in self.results.items() if name not in self.claims.settings]

    @property
    def block(self) -> str:
        """The name of the generated block of Markdown: claims of a scenario, of variants or with overrides have one."""
        return block(self.claims.paper, self.scenario, self.variants, self.sets)

    @property
    def missed(self) -> list[Checked]:
        """The gated claims that were not shown to hold."""
        return [each for each in self.checked if each.missed]


def block(paper: str, scenario: str | None, variants: Sequence[str], sets: Sequence[str]) -> str:
    """The name of the generated block of Markdown for these options of `penstock paper`."""
    options = [f"--scenario {scenario}"] if scenario else []
    options += [f"--variant {name}" for name in variants]
    options += [f"--set {each}" for each in sets]
    return " ".join([f"penstock paper {paper}", *options])


def run(
    name: str,
    *,
    figure: str | None = None,
    scenario: str | None = None,
    variants: Sequence[str] = (),
    scale: float = 1.0,
    sets: Sequence[str] = (),
    seeds: int = RUNS,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    watching: Watching | None = None,
    confirm: Confirm | None = None,
) -> Outcome:
    """Run the scenarios of a paper's claims, and decide the claims.

    Args:
        name: a shipped paper, or a folder with a claims file.
        figure: only claims about this figure, and only the variants that they compare.
        scenario: only claims that this scenario decides, by its name in the claims file.
        variants: only claims between these variants, and only these rows of tables beside their baseline.
        scale: multiplies the numbers of downloads and the durations after the warm-up that the claims file lists.
        sets: overrides of keys in all scenarios that run, in the form `key=value`.
        seeds: the number of seeds, from the first seed of each scenario upwards.
        out: the paper's directory, with a subdirectory for each scenario; by default `runs/paper-<name>-<n>`.
        jobs: the number of runs at the same time; by default one for each core.
        ray: the address of a Ray cluster that executes the runs, as in `penstock.run`. All scenarios share one
            connection.
        watching: makes a progress display for the runs of a scenario.
        confirm: receives the estimated cost of all scenarios before the first run; an exception ends the command.

    Raises:
        PenstockError: if the claims, a scenario or an option is wrong, or a directory is refused.
        Cancelled: on Ctrl-C; finished runs are kept.
    """
    claims = load(name)
    chosen = claims.of(figure, scenario)
    rows = None
    if variants:
        check_rows(claims, chosen, figure=figure, scenario=scenario, variants=variants)
        rows = set(variants)
        chosen = [claim for claim in chosen if claim.all_variants <= claims.with_baselines(rows, claim.scenarios)]
    first = {claim.id: undecidable(claim, claims.has) for claim in chosen}
    measured = [claim for claim in chosen if first[claim.id] is None]
    experiments = plan(claims, measured, figure=figure, scenario=scenario, rows=rows, scale=scale, sets=sets)
    left = _unfinished(experiments, seeds, out)
    with _connected(ray, left, jobs) as cluster:
        if confirm:
            confirm(_cost(left, jobs, cluster))
        directory, made = _directory(claims, out, scale, sets)
        results = {}
        for each in experiments:
            with watching(each.title) if watching else nullcontext() as watch:
                try:
                    if not (directory / each.name).exists():
                        _refuse_other_build(directory)
                    results[each.name] = _one(each, seeds, directory, jobs, cluster, watch)
                except Cancelled:
                    raise Cancelled(
                        "stopped; finished runs are kept, and the same command with "
                        f"--out {directory} executes the others"
                    ) from None
    checked = [first[claim.id] or decide(claim, results) for claim in chosen]
    compared = tradeoffs.of(claims.tradeoffs, results)
    sensitive = sensitivity.of(claims, results)
    return Outcome(
        claims, directory, checked, results, scale, figure, scenario, tuple(variants), made, compared, sensitive,
        tuple(sets),
    )  # fmt: skip


def check_tradeoffs(name: str, figure: str | None, scenario: str | None) -> None:
    """Raise a PenstockError if the selected claims have no table of trade-offs."""
    claims = load(name)
    claims.of(figure, scenario)
    if not claims.tradeoffs_of(figure, scenario):
        remedy = "leave --tradeoffs out"
        if claims.tradeoffs:
            remedy = (
                f"leave --figure out, and give --scenario {' or '.join(claims.tradeoffs.scenarios)}, or no --scenario"
            )
        raise PenstockError(
            f"--tradeoffs needs a table of trade-offs, and these claims of {claims.paper} have none; {remedy}"
        )


def write(outcome: Outcome) -> Outcome:
    """Write `claims.json` after the figures exist; returns the outcome with the evidence of each claim."""
    checked = [replace(each, evidence=_evidence(each.claim, outcome)) for each in outcome.checked]
    outcome = replace(outcome, checked=checked)
    write_json(outcome.directory / VERDICTS, describe(outcome))
    for compared in outcome.compared:
        path = outcome.directory / compared.scenario / TRADEOFFS
        with naming(path):
            tradeoffs.table(compared).write_csv(path)
    if outcome.sensitive:
        path = outcome.directory / SENSITIVITY
        with naming(path):
            outcome.sensitive.table().write_csv(path)
    return outcome


def describe(outcome: Outcome) -> dict[str, Any]:
    """The content of `claims.json`."""
    return {
        **_head(outcome.claims, outcome.scale, outcome.sets),
        "made": outcome.made,
        "finished": True,
        "figure": outcome.figure,
        "scenario": outcome.scenario,
        "variants": list(outcome.variants) or None,
        "claims": [_entry(each) for each in outcome.checked],
    }


class _Left(NamedTuple):
    """A scenario whose output is not finished."""

    document: _core.Document
    todo: list[Job]
    """All runs, of which `where` may have some."""
    where: Path | None
    is_local: bool
    """Whether this machine executes the runs even if there is a cluster."""

    def at_once(self, jobs: int | None) -> int:
        """The number of runs at the same time on this machine."""
        return fits.at_once(self.document, {job.variant for job in self.todo}, jobs, fits.cores(self.document))


def _unfinished(experiments: Sequence[Experiment], seeds: int, out: str | Path | None) -> list[_Left]:
    """The experiments that `out` lacks, or has in part."""
    left = []
    for each in experiments:
        where = None if out is None else Path(out) / each.name
        manifest = read_manifest(where) if where is not None else None
        if manifest is None or not manifest["finished"]:
            _, document = catalog.load(each.scenario, each.sets, variants=sorted(each.variants))
            todo = runs.plan(document, sorted(each.variants), None, **_many(document, seeds))
            left.append(_Left(document, todo, where, is_local=each.replay is not None))
    return left


def _connected(ray: str | None, left: Sequence[_Left], jobs: int | None) -> AbstractContextManager[Cluster | None]:
    """The cluster at the address `ray`, if scenarios are left for it."""
    left = [each for each in left if not each.is_local]
    if ray is None or not left:
        return nullcontext()
    workers = max(each.at_once(jobs) for each in left) if ray_runs.is_local(ray) else 1
    return ray_runs.connected(ray, workers)


def _cost(left: Sequence[_Left], jobs: int | None, cluster: Cluster | None) -> Cost:
    """The estimated cost of the runs that are left, scenario after scenario."""
    total = Cost(0, 0.0, 1, 0.0)
    for each in left:
        at_once = each.at_once(jobs) if cluster is None or each.is_local else cluster.cores()
        total += runs.cost(each.document, each.todo, each.where, at_once)
    return total


def _one(
    experiment: Experiment, seeds: int, directory: Path, at_once: int | None, ray: Cluster | None, watch: Watch | None
) -> Result:
    """Do the missing runs of one experiment, and return its output. A cluster executes no replays."""
    where, variants = directory / experiment.name, sorted(experiment.variants)
    _, document = catalog.load(experiment.scenario, experiment.sets, variants=variants)
    many = _many(document, seeds)
    manifest = read_manifest(where)
    if manifest is None or not manifest["finished"]:
        replay = directory / experiment.replay if experiment.replay else None
        return runs.run(
            experiment.scenario, variants=variants, sets=experiment.sets, runs=many["runs"], networks=many["networks"],
            replay=replay, replay_variant=experiment.replay_variant,
            out=where, jobs=at_once, ray=None if replay else ray, watch=watch,
        )  # fmt: skip
    jobs = runs.plan(document, variants, None, **many)
    same = manifest["scenario"]["fingerprint"] == document.fingerprint()
    requests = (
        Record(directory / experiment.replay, experiment.replay_variant).describe() if experiment.replay else None
    )
    if same and not same_replay(manifest.get("replay"), requests):
        raise OutputError(f"{where} is a finished output with another replay or without one; choose another --out")
    there = {Job.of(run) for run in manifest["runs"]}
    if not same or not all(job in there for job in jobs):
        what = "fewer variants or seeds than requested" if same else "another scenario or scale"
        raise OutputError(f"{where} is a finished output with {what}; choose another --out")
    return Result(where)


def _refuse_other_build(directory: Path) -> None:
    """Refuse to run further scenarios of a paper with another build. Finished outputs may be evaluated again."""
    for path in sorted(directory.rglob("manifest.json")):
        # Other scenarios of the paper may have no prototypes, or other ones.
        earlier = read_json(path).get("version")
        if prototypes.without(str(earlier)) != _core.version():
            raise OutputError(
                f"{path.parent} was made by penstock {earlier}, and this is {_core.version()}; continue with the other "
                "build, or choose another --out"
            )


def _many(document: _core.Document, replicates: int) -> dict[str, int | None]:
    """The arguments of a run: `replicates` seeds, or networks with one seed each if the scenario has networks."""
    return {"networks": replicates, "runs": 1} if document.networks() else {"networks": None, "runs": replicates}


def _directory(claims: Claims, out: str | Path | None, scale: float, sets: Sequence[str]) -> tuple[Path, str]:
    """A new directory, or an existing one of the same paper, scale and overrides; and its origin."""
    directory = fresh(f"paper-{claims.paper}") if out is None else Path(out)
    head = _head(claims, scale, sets)
    path = directory / VERDICTS
    with naming(directory, "make"):
        if path.is_file():
            earlier = read_json(path)
            for key in ("paper", "scale"):
                if earlier.get(key) != head[key]:
                    raise OutputError(
                        f"{directory} holds {key} {earlier.get(key)}, not {head[key]}; choose another --out"
                    )
            if earlier.get("sets", []) != head["sets"]:
                there = ", ".join(f"--set {each}" for each in earlier.get("sets", [])) or "no --set"
                raise OutputError(f"{directory} was made with {there}; repeat this, or choose another --out")
            return directory, str(earlier.get("made", f"Penstock {earlier.get('version')}"))
        if directory.exists() and any(directory.iterdir()):
            raise OutputError(f"{directory} exists and is not an output of penstock paper; choose another --out")
        directory.mkdir(parents=True, exist_ok=True)
    made = generated.origin()
    asked = {"figure": None, "scenario": None, "variants": None}
    write_json(path, {**head, "made": made, "finished": False, **asked, "claims": []})
    return directory, made


def _head(claims: Claims, scale: float, sets: Sequence[str]) -> dict[str, Any]:
    head = {"version": _core.version(), "paper": claims.paper, "title": claims.title}
    return {**head, "scale": scale, "sets": list(sets)}


def _evidence(claim: Claim, outcome: Outcome) -> tuple[str, ...]:
    there = [scenario for scenario in claim.scenarios if scenario in outcome.results]
    if not there:
        return ()
    measure = MEASURES[claim.measure]
    files = [f"{measure.table}.parquet", *(f"figures/{name}.png" for name in measure.figures)]
    paths = [f"{scenario}/{file}" for scenario in there for file in files]
    return tuple(path for path in paths if (outcome.directory / path).is_file())


def _entry(checked: Checked) -> dict[str, Any]:
    """A claim in `claims.json`; null where there is no number."""
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
        "gate": gate and gate.model_dump(exclude_none=True),
        "verdict": checked.verdict,
        "reason": checked.reason,
        "evidence": list(checked.evidence),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
