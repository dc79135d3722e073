"""Plans the experiments of a paper: the variants, overrides and replays of its scenarios and settings."""

import math
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace

from penstock import catalog
from penstock.errors import PenstockError, ScenarioError
from penstock.paper.claims import Claim, Claims


@dataclass(frozen=True)
class Experiment:
    """A scenario or a setting of a paper, with all runs that the selected claims and tables need."""

    name: str
    """The name in the claims file, which is the name of its directory."""
    scenario: str
    """The scenario on the command line."""
    variants: frozenset[str]
    sets: tuple[str, ...] = ()
    """The overrides of the setting, of `--scale` and of `--set`."""
    replay: str | None = None
    """The experiment whose requests all variants repeat."""
    replay_variant: str | None = None

    @property
    def title(self) -> str:
        """The scenario, and a setting's directory."""
        return self.scenario if self.scenario.endswith(self.name) else f"{self.scenario} ({self.name})"


def plan(
    claims: Claims,
    measured: Sequence[Claim],
    *,
    figure: str | None,
    scenario: str | None,
    rows: Set[str] | None = None,
    scale: float,
    sets: Sequence[str] = (),
) -> list[Experiment]:
    """The experiments that the claims, the tables of trade-offs and the sensitivity need, in their order.

    `measured` are the selected claims that need runs. The other arguments are those of `penstock.paper.runner.run`;
    `figure` and `scenario` also select tables and settings, and `rows` their variants.

    Raises:
        PenstockError: if a claim or a table names an unknown variant, or a scenario or its scale is wrong.
    """
    needed: dict[str, list[Claim]] = {}
    for claim in measured:
        for name in claim.scenarios:
            needed.setdefault(name, []).append(claim)
    wanted: dict[str, set[str]] = {}
    for name, about in needed.items():
        _check_variants(claims, name, about)
        wanted[name] = {variant for claim in about for variant in claim.variants_in(name)}
    tables = claims.tradeoffs_of(figure, scenario)
    # A companion has all variants even without a table, because a later command can need them in the same directory.
    has_companions = any(column.scenario for name in tables for column in claims.columns_of(name))
    companions = [name for name in claims.companions if has_companions or name in wanted]
    for name in companions:
        wanted[name] = _all_variants(claims, name)
    for name in tables:
        wanted[name] = _of(_all_variants(claims, name), rows and claims.with_baselines(rows, [name]))
    if settings := claims.settings_of(figure, scenario):
        compared = _of(_sensitive_variants(claims), rows and claims.with_baselines(rows, settings))
        for name in settings:
            wanted.setdefault(name, set()).update(compared - set(claims.settings[name].without))
    for name in list(wanted):
        if replayed := claims.replayed(name):
            wanted.setdefault(replayed, set()).add(claims.baseline)
    # A setting comes after the settings whose requests it repeats.
    order = [name for name in wanted if name not in claims.settings]
    order += [name for name in claims.settings if name in wanted]
    return [_experiment(claims, name, wanted[name], scale, sets) for name in order]


def check_rows(
    claims: Claims, chosen: Sequence[Claim], *, figure: str | None, scenario: str | None, variants: Collection[str]
) -> None:
    """Check variants that a user chose. `chosen` are the claims of `figure` and `scenario`.

    Raises:
        PenstockError: if no selected claim, table or setting has one of the variants.
    """
    known = {name for claim in chosen for name in claim.all_variants}
    for table in claims.tradeoffs_of(figure, scenario):
        known |= _all_variants(claims, table)
    if claims.settings_of(figure, scenario):
        known |= _sensitive_variants(claims)
    for name in variants:
        if name not in known:
            raise PenstockError(f"--variant is {name}; these experiments have the variants {', '.join(sorted(known))}")


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


def _experiment(claims: Claims, name: str, variants: set[str], scale: float, more: Sequence[str]) -> Experiment:
    setting = claims.settings.get(name)
    sets = _sets(claims, name) if setting else ()
    if name not in claims.companions:
        sets += scaled(claims, claims.file_of(name), scale)
    replay = claims.replayed(name)
    replay_variant = claims.baseline if replay else None
    experiment = Experiment(name, claims.scenario(name), frozenset(variants), sets, replay, replay_variant)
    _check_scale(experiment, scale)
    _check_overrides(experiment, more)
    return replace(experiment, sets=(*sets, *more))


def _sets(claims: Claims, name: str) -> tuple[str, ...]:
    """The overrides of a setting; raise its own error if they do not fit the scenario."""
    setting = claims.settings[name]
    try:
        catalog.load(claims.scenario(name), setting.set)
    except ScenarioError as error:
        raise PenstockError(f"{catalog.CLAIMS}: set of the setting {setting.name!r}: {error}") from error
    return setting.set


def _check_scale(experiment: Experiment, scale: float) -> None:
    """Explain a mistake that a scaled scenario has and the whole scenario has not."""
    if scale == 1:
        return
    try:
        catalog.load(experiment.scenario, experiment.sets)
    except ScenarioError as error:
        catalog.load(experiment.scenario)  # If the whole scenario has a mistake, too, this raises its own error.
        raise PenstockError(
            f"--scale {scale:g} is too {'small' if scale < 1 else 'large'} for {experiment.scenario}, because it sets "
            f"{', '.join(experiment.sets)}; use a {'larger' if scale < 1 else 'smaller'} --scale, or leave it out "
            f"({error})"
        ) from error


def _check_overrides(experiment: Experiment, more: Sequence[str]) -> None:
    """Check the overrides of `--set`, before the first run.

    Raises:
        PenstockError: if an override does not fit the scenario, or sets what the setting or `--scale` sets.
    """
    if not more:
        return
    taken = {_key(each) for each in experiment.sets}
    if "run.duration" in taken:
        taken.add("run.warmup")
    for each in more:
        if (key := _key(each)) in taken:
            raise PenstockError(
                f"--set {each}: {experiment.title} sets {key} already, by --scale or as a setting of its claims; leave "
                "--set or --scale out, or choose another --scenario"
            )
    try:
        catalog.load(experiment.scenario, (*experiment.sets, *more), variants=sorted(experiment.variants))
    except ScenarioError as error:
        raise PenstockError(f"{experiment.title}: {error}") from error


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _check_variants(claims: Claims, name: str, about: Sequence[Claim]) -> None:
    known = _known_variants(claims, name)
    for claim in about:
        for variant in sorted(claim.variants_in(name)):
            if variant not in known:
                raise PenstockError(
                    f"claim {claim.id}: {claims.scenario(name)} has no variant {variant!r}; it has {', '.join(known)}"
                )


def _all_variants(claims: Claims, scenario: str) -> set[str]:
    """The variants of a scenario, among them the baseline of the trade-offs."""
    known, baseline = _known_variants(claims, scenario), claims.baseline_of(scenario)
    if baseline not in known:
        raise PenstockError(
            f"tradeoffs.baseline is {baseline!r}; the variants of {claims.scenario(scenario)} are "
            f"{', '.join(sorted(known))}"
        )
    return set(known)


def _of(variants: set[str], rows: Set[str] | None) -> set[str]:
    return variants if rows is None else variants & rows


def _sensitive_variants(claims: Claims) -> set[str]:
    """The variants that run in each setting."""
    if claims.sensitivity is None:
        raise AssertionError("settings come from [sensitivity]")
    known = _all_variants(claims, claims.sensitivity.scenario)
    for variant in sorted(set(claims.sensitivity.variants) - known):
        raise PenstockError(
            f"sensitivity.variants has {variant!r}; the variants of {claims.scenario(claims.sensitivity.scenario)} are "
            f"{', '.join(sorted(known))}"
        )
    return {claims.baseline, *claims.sensitivity.variants}


def _known_variants(claims: Claims, name: str) -> list[str]:
    return [variant for variant, _ in catalog.load(claims.scenario(name))[1].variants()]
