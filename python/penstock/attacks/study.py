"""An output's attacks: the tables of victims and of leaks, and their command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _core, catalog, runs
from penstock.attacks import conclusions, estimators, flag_times, measurement, model
from penstock.attacks.model import Attack, FlagTime
from penstock.errors import OutputError, PenstockError, naming, replacing
from penstock.estimates import Confirm
from penstock.output import read_manifest, write_json
from penstock.progress import Watch
from penstock.replicates import RUN
from penstock.result import Result

VICTIMS, LEAKS = "victims", "leaks"
"""The names of the tables of a study."""


@dataclass(frozen=True)
class Study:
    """The attacks of an output, and what they found."""

    attacks: tuple[Attack, ...]
    victims: pl.DataFrame
    """One row for each victim of each attack and variant."""
    leaks: pl.DataFrame
    """One row for each attack and variant."""


def of(result: Result) -> Study:
    """The study of an output of a scenario with attacks."""
    return _study(result.directory.resolve(), len(result.manifest["runs"]), repr(result.manifest.get("attacks")))


@cache
def _study(directory: Path, _runs: int, _attacks: str) -> Study:
    result = Result(directory)
    attacks, document = attacks_of(result), document_of(result)
    backlogs = any(attack.measurement.what == "backlog" for attack in attacks)
    there = measurement.runs(result, document, backlogs=backlogs)
    rows: list[dict[str, Any]] = []
    leaks: list[dict[str, Any]] = []
    for attack in attacks:
        for variant, label in result.variants.items():
            mine = [run for run in there if run.variant == variant]
            with result.reading():
                made = [(run, each) for run in mine for each in estimators.guesses(attack, run)]
            found = pl.DataFrame(conclusions.rows_of(attack, variant, made), conclusions.VICTIM, orient="row")
            rows += found.rows(named=True)
            victims_of = sum(estimators.victims(attack, run) for run in mine)
            if victims_of:
                missing = max(victims_of - len(made), 0)
                p = conclusions.p_value(made)
                leaks.append(conclusions.leak_of(attack, variant, label, found, missing, p))
    victims = pl.DataFrame(rows, conclusions.VICTIM, orient="row")
    return Study(attacks, victims, pl.DataFrame(leaks, infer_schema_length=None))


def attacks_of(result: Result) -> tuple[Attack, ...]:
    """The attacks in the manifest of an output."""
    tables = result.manifest.get("attacks")
    if not tables:
        raise OutputError(f"{result.directory} has no attacks; penstock attack runs a scenario with [[attacks]]")
    return model.read(tables, result.directory / "manifest.json")


def document_of(result: Result) -> _core.Document:
    """The scenario of an output, which must not have changed since."""
    name = result.asked["scenario"]
    document = _as_made(result.manifest, name)
    if document is None:
        raise OutputError(f"{result.directory} was made by other contents of {name}; run penstock attack again")
    return document


def _as_made(manifest: Mapping[str, Any], scenario: str) -> _core.Document | None:
    """The present document of a scenario, if the output of this manifest was made by the same one."""
    asked, made = manifest["asked"], manifest["scenario"]
    _, document = catalog.load(scenario, tuple(made["sets"]), asked.get("network"), tuple(asked["variants"]))
    return document if document.fingerprint() == made["fingerprint"] else None


def run(
    scenario: str,
    *,
    variants: Sequence[str] | None = None,
    sets: Sequence[str] = (),
    seeds: int | None = None,
    networks: int | None = None,
    network: Path | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    shard: str | None = None,
    ray: str | None = None,
    watch: Watch | None = None,
    confirm: Confirm | None = None,
) -> Result:
    """Do the missing runs of a scenario with attacks.

    Of `sets`, `attacks.NAME.KEY=VALUE` changes an attack, and thus no run. Throttles that `flag-time` refuses are
    refused before the first run. A finished directory is only evaluated, with the present attacks of the scenario.
    """
    of_attacks = [each for each in sets if each.startswith("attacks.")]
    sets = [each for each in sets if each not in of_attacks]
    attacks = model.of_scenario(scenario, of_attacks)
    if of_attacks and shard:
        raise PenstockError(f"--set {of_attacks[0]}: a shard evaluates no attack; give this to the merged directory")
    if any(isinstance(attack.estimator, FlagTime) for attack in model.read(attacks, scenario)):
        _, document = catalog.load(scenario, tuple(sets), network, tuple(variants or ()))
        for variant, _ in document.variants():
            flag_times.throttle_of(document.resolved(variant))
    manifest = None if out is None else read_manifest(out)
    if out is not None and manifest is not None and manifest["finished"]:
        if _as_made(manifest, scenario) is None:
            raise OutputError(f"{out} was not made by the present {scenario}; choose another --out")
        return _with_attacks(Result(out), attacks)
    result = runs.run(
        scenario, variants=variants, sets=sets, runs=seeds, networks=networks, network=network, out=out,
        jobs=jobs, threads=threads, shard=shard, ray=ray, watch=watch, confirm=confirm,
    )  # fmt: skip
    return _with_attacks(result, attacks) if of_attacks else result


def _with_attacks(result: Result, attacks: list[dict[str, Any]]) -> Result:
    """An output whose manifest has these attacks."""
    manifest = read_manifest(result.directory)
    if manifest is None or attacks == manifest.get("attacks"):
        return result
    write_json(result.directory / "manifest.json", manifest | {"attacks": attacks, "attacks_version": _core.version()})
    return Result(result.directory)


def write(result: Result) -> Study:
    """Write the tables of a study beside those of its runs."""
    study = of(result)
    for name, table in ((VICTIMS, study.victims), (LEAKS, study.leaks)):
        path = result.directory / f"{name}.parquet"
        with replacing(path) as temporary, naming(path):
            table.write_parquet(temporary)
    return study


def read(directory: Path) -> Study:
    """The study that `write` left in an output directory."""
    path = directory / f"{LEAKS}.parquet"
    if not path.is_file():
        raise OutputError(f"{directory} has no {path.name}; run penstock attack with --out {directory} first")
    result = Result(directory)
    with naming(path, "read"):
        tables = [pl.read_parquet(directory / f"{name}.parquet") for name in (VICTIMS, LEAKS)]
    return Study(attacks_of(result), *tables)


@dataclass(frozen=True)
class Measure:
    """A measure of claims: a number of each victim of an attack."""

    column: str

    def __call__(self, result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
        """The numbers of a variant's victims; `hop` names attacks, of which the one on `workload` counts."""
        study = of(result)
        names = [attack.name for attack in study.attacks if attack.adversary.victims == workload]
        chosen = [name for name in hop.split() if name in names]
        return conclusions.values(study.victims.filter(pl.col("attack").is_in(chosen), variant=variant), self.column)


def anonymity(result: Result, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """The share of all candidates that an adversary leaves: 2 to the power of minus the mean gain, for each run."""
    gains = Measure("gain")(result, variant, workload, hop)
    return gains.group_by(RUN).agg(value=0.5 ** pl.col("value").mean()).sort(RUN)
