"""Runs a paper: an output directory for each of its scenarios, and a verdict on each of its claims."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from penstock import _core, catalog, fits, generated, prototypes, ray_runs, runs
from penstock.errors import Cancelled, OutputError, PenstockError, ScenarioError, naming
from penstock.estimates import Confirm, Cost
from penstock.output import Job, fresh, read_json, read_manifest, write_json
from penstock.paper import sensitivity, tradeoffs
from penstock.paper.claims import Claim, Claims, load
from penstock.paper.measures import MEASURES
from penstock.paper.verdicts import Checked, decide, undecidable, unit_of
from penstock.progress import Watch
from penstock.ray_runs import Cluster
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
    made: str
    """Version, commit and date of the first run into the directory."""
    compared: Sequence[tradeoffs.Compared] = ()
    """The tables of trade-offs."""
    sensitive: sensitivity.Sensitive | None = None
    """The changes in each setting of the network."""

    @property
    def shown(self) -> list[Result]:
        """The outputs with a part of their own in the report: those of scenarios, not those of settings."""
        return [result for name, result in self.results.items() if name not in self.claims.settings]

    @property
    def block(self) -> str:
        """The name of the generated block of Markdown: claims of one scenario have a block of their own."""
        only = f" --scenario {self.scenario}" if self.scenario else ""
        return f"penstock paper {self.claims.paper}{only}"

    @property
    def missed(self) -> list[Checked]:
        """The gated claims that were not shown to hold."""
        return [each for each in self.checked if each.missed]


def run(
    name: str,
    *,
    figure: str | None = None,
    scenario: str | None = None,
    scale: float = 1.0,
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
        scale: multiplies the numbers of downloads and the durations after the warm-up that the claims file lists.
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
    first = {claim.id: undecidable(claim, claims.has) for claim in chosen}
    needed: dict[str, list[Claim]] = {}
    for claim in chosen:
        if first[claim.id] is None:
            for each in claim.scenarios:
                needed.setdefault(each, []).append(claim)
    for each, about in needed.items():
        _check_variants(claims, each, about)
    wanted_in = {
        each: {variant for claim in about for variant in claim.variants_in(each)} for each, about in needed.items()
    }
    tables = claims.tradeoffs_of(figure, scenario)
    # A companion has all variants even without a table, because a later command can need them in the same directory.
    companions = [each for each in claims.companions if tables or each in wanted_in]
    for each in [*tables, *companions]:
        wanted_in[each] = _all_variants(claims, each)
    for each in claims.settings_of(figure, scenario):
        wanted_in[each] = wanted_in.get(each, set()) | _sensitive_variants(claims)
    wanted_in = _with_replayed(claims, wanted_in)
    sets = {each: () if each in claims.companions else _overrides(claims, each, scale) for each in wanted_in}
    for each in sets:
        _check_scale(claims, each, sets[each], scale)
    left = _unfinished(claims, wanted_in, sets, seeds, out)
    with _connected(ray, left, jobs) as cluster:
        if confirm:
            confirm(_cost(left, jobs, cluster))
        directory, made = _directory(claims, out, scale)
        results = {}
        for each, wanted in wanted_in.items():
            where = directory / each
            name = claims.scenario(each)
            with watching(name) if watching else nullcontext() as watch:
                try:
                    if not where.exists():
                        _refuse_other_build(directory)
                    replay = claims.replayed(each)
                    requests = _Requests(directory / replay, claims.baseline) if replay else None
                    results[each] = _one(name, wanted, sets[each], seeds, where, jobs, cluster, watch, requests)
                except Cancelled:
                    raise Cancelled(
                        "stopped; finished runs are kept, and the same command with "
                        f"--out {directory} executes the others"
                    ) from None
    checked = [first[claim.id] or decide(claim, results) for claim in chosen]
    compared = tradeoffs.of(claims.tradeoffs, results)
    sensitive = sensitivity.of(claims, results)
    return Outcome(claims, directory, checked, results, scale, figure, scenario, made, compared, sensitive)


def check_tradeoffs(name: str, figure: str | None, scenario: str | None) -> None:
    """Raise a PenstockError if the selected claims have no table of trade-offs."""
    claims = load(name)
    if not claims.tradeoffs_of(figure, scenario):
        known = ", ".join(claims.tradeoffs.scenarios) if claims.tradeoffs else "none"
        raise PenstockError(
            f"--tradeoffs needs a table of trade-offs; the scenarios with a table in {claims.paper}: {known}"
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
        **_head(outcome.claims, outcome.scale),
        "made": outcome.made,
        "finished": True,
        "figure": outcome.figure,
        "scenario": outcome.scenario,
        "claims": [_entry(each) for each in outcome.checked],
    }


def _overrides(claims: Claims, name: str, scale: float) -> tuple[str, ...]:
    """The overrides of a scenario, or of a setting's scenario."""
    setting = claims.settings.get(name)
    return (*(setting.set if setting else ()), *scaled(claims, claims.file_of(name), scale))


def scaled(claims: Claims, scenario: str, scale: float) -> tuple[str, ...]:
    """The overrides that scale a scenario's downloads and its duration after the warm-up, which stays as long."""
    if scale == 1:
        return ()
    if not (math.isfinite(scale) and scale > 0):
        raise PenstockError(f"--scale is {scale}; it takes a number above 0, like 0.1")
    what = claims.scale.get(scenario)
    if not what:
        raise PenstockError(f"{claims.scenario(scenario)} has no downloads or duration to scale; leave --scale out")
    sets = []
    if "downloads" in what:
        sets.append(f"run.stop.downloads={max(1, round(what['downloads'] * scale))}")
    if "duration_s" in what:
        warmup = what.get("warmup_s", 0)
        sets.append(f'run.duration="{warmup + max(1, round((what["duration_s"] - warmup) * scale))} s"')
    return tuple(sets)


def _check_scale(claims: Claims, scenario: str, sets: tuple[str, ...], scale: float) -> None:
    """Explain a mistake that a scaled scenario has and the whole scenario has not."""
    if scale == 1 or not sets:
        return
    name = claims.scenario(scenario)
    try:
        catalog.load(name, sets)
    except ScenarioError as error:
        catalog.load(name)  # If the whole scenario has a mistake, too, this raises its own error.
        raise PenstockError(
            f"--scale {scale:g} is too {'small' if scale < 1 else 'large'} for {name}, because it sets "
            f"{', '.join(sets)}; use a {'larger' if scale < 1 else 'smaller'} --scale, or leave it out ({error})"
        ) from error


def _check_variants(claims: Claims, scenario: str, about: Sequence[Claim]) -> None:
    known = _known_variants(claims, scenario)
    for claim in about:
        for variant in sorted(claim.variants_in(scenario)):
            if variant not in known:
                raise PenstockError(
                    f"claim {claim.id}: {claims.scenario(scenario)} has no variant {variant!r}; "
                    f"it has {', '.join(known)}"
                )


def _all_variants(claims: Claims, scenario: str) -> set[str]:
    """The variants of a scenario, among them the baseline of the trade-offs."""
    known = _known_variants(claims, scenario)
    if claims.tradeoffs and claims.tradeoffs.baseline not in known:
        raise PenstockError(
            f"tradeoffs.baseline is {claims.tradeoffs.baseline!r}; the variants of {claims.scenario(scenario)} are "
            f"{', '.join(sorted(known))}"
        )
    return set(known)


def _with_replayed(claims: Claims, wanted_in: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same scenarios and settings with those whose requests others repeat, each before the others."""
    settings = {name: wanted_in[name] for name in claims.settings if name in wanted_in}
    for name in list(settings):
        replay = claims.replayed(name)
        if replay is not None:
            settings[replay] = settings.get(replay, set()) | {claims.baseline}
    others = {name: wanted for name, wanted in wanted_in.items() if name not in settings}
    return others | {name: settings[name] for name in claims.settings if name in settings}


def _sensitive_variants(claims: Claims) -> set[str]:
    """The variants that run in each setting."""
    if claims.sensitivity is None:
        raise AssertionError("settings come from [sensitivity]")
    known = _known_variants(claims, claims.sensitivity.scenario)
    wanted = {claims.baseline, *claims.sensitivity.variants}
    for variant in sorted(wanted - set(known)):
        raise PenstockError(
            f"sensitivity.variants has {variant!r}; the variants of {claims.scenario(claims.sensitivity.scenario)} are "
            f"{', '.join(sorted(known))}"
        )
    return wanted


def _known_variants(claims: Claims, scenario: str) -> list[str]:
    return [name for name, _ in catalog.load(claims.scenario(scenario))[1].variants()]


class _Requests(NamedTuple):
    """Recorded requests that a setting repeats."""

    directory: Path
    variant: str


class _Left(NamedTuple):
    """A scenario whose output is not finished."""

    document: _core.Document
    todo: list[Job]
    """All runs, of which `where` may have some."""
    where: Path | None

    def at_once(self, jobs: int | None) -> int:
        """The number of runs at the same time on this machine."""
        return fits.at_once(self.document, {job.variant for job in self.todo}, jobs, fits.cores(self.document))


def _unfinished(
    claims: Claims,
    wanted: dict[str, set[str]],
    sets: dict[str, tuple[str, ...]],
    seeds: int,
    out: str | Path | None,
) -> list[_Left]:
    """The scenarios that `out` lacks, or has in part."""
    left = []
    for scenario, variants in wanted.items():
        where = None if out is None else Path(out) / scenario
        manifest = read_manifest(where) if where is not None else None
        if manifest is None or not manifest["finished"]:
            _, document = catalog.load(claims.scenario(scenario), sets[scenario])
            todo = runs.plan(document, sorted(variants), None, **_many(document, seeds))
            left.append(_Left(document, todo, where))
    return left


def _connected(ray: str | None, left: Sequence[_Left], jobs: int | None) -> AbstractContextManager[Cluster | None]:
    """The cluster at the address `ray`, if scenarios are left for it."""
    if ray is None or not left:
        return nullcontext()
    workers = max(each.at_once(jobs) for each in left) if ray_runs.is_local(ray) else 1
    return ray_runs.connected(ray, workers)


def _cost(left: Sequence[_Left], jobs: int | None, cluster: Cluster | None) -> Cost:
    """The estimated cost of the runs that are left, scenario after scenario."""
    total = Cost(0, 0.0, 1, 0.0)
    for each in left:
        at_once = each.at_once(jobs) if cluster is None else cluster.cores()
        total += runs.cost(each.document, each.todo, each.where, at_once)
    return total


def _one(
    name: str,
    variants: set[str],
    sets: tuple[str, ...],
    seeds: int,
    where: Path,
    at_once: int | None,
    ray: Cluster | None,
    watch: Watch | None,
    requests: _Requests | None,
) -> Result:
    """Do the missing runs of one scenario or setting, and return its output. A cluster executes no replays."""
    manifest = read_manifest(where)
    if manifest is None or not manifest["finished"]:
        many = _many(catalog.load(name, sets)[1], seeds)
        return runs.run(
            name, variants=sorted(variants), sets=sets, runs=many["runs"], networks=many["networks"],
            replay=requests and requests.directory, replay_variant=requests and requests.variant,
            out=where, jobs=at_once, ray=None if requests else ray, watch=watch,
        )  # fmt: skip
    _, document = catalog.load(name, sets)
    jobs = runs.plan(document, sorted(variants), None, **_many(document, seeds))
    same = manifest["scenario"]["fingerprint"] == document.fingerprint()
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


def _directory(claims: Claims, out: str | Path | None, scale: float) -> tuple[Path, str]:
    """A new directory, or an existing one of the same paper and scale; and its origin."""
    directory = fresh(f"paper-{claims.paper}") if out is None else Path(out)
    head = _head(claims, scale)
    path = directory / VERDICTS
    with naming(directory, "make"):
        if path.is_file():
            earlier = read_json(path)
            for key in ("paper", "scale"):
                if earlier.get(key) != head[key]:
                    raise OutputError(
                        f"{directory} holds {key} {earlier.get(key)}, not {head[key]}; choose another --out"
                    )
            return directory, str(earlier.get("made", f"Penstock {earlier.get('version')}"))
        if directory.exists() and any(directory.iterdir()):
            raise OutputError(f"{directory} exists and is not an output of penstock paper; choose another --out")
        directory.mkdir(parents=True, exist_ok=True)
    made = generated.origin()
    write_json(path, {**head, "made": made, "finished": False, "figure": None, "scenario": None, "claims": []})
    return directory, made


def _head(claims: Claims, scale: float) -> dict[str, Any]:
    return {"version": _core.version(), "paper": claims.paper, "title": claims.title, "scale": scale}


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
