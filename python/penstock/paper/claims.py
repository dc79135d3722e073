"""The claims file of a paper: its statements, and the measurement that decides each of them.

The file is `claims.toml` in the folder of the paper's scenarios. docs/reference/claims.md explains its keys.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, Field, PositiveInt, model_validator

from penstock import catalog
from penstock.errors import PenstockError, naming
from penstock.paper import curves
from penstock.paper.curves import Text
from penstock.paper.measures import EVERYWHERE, MEASURES, SHARE, STATISTICS
from penstock.paper.totals import EVERY
from penstock.validation import Strict, parse

COMPARES = {
    "value": 1,
    "difference": 2,
    "ratio": 2,
    "change": 2,
    "worst-change": 2,
    "gain": 3,
    "ratio-change": 4,
    "mean-ratio": 6,
    "ks": 2,
    "quantiles-below": 2,
}
"""The comparisons that compute one number from the sides of a claim, with the number of sides of each comparison."""

WORST = "worst-change"
"""The comparison whose first side is the variant with the largest mean, not that with the smallest."""

OF_SAMPLES = ("ks", "quantiles-below")
"""The comparisons that need every value of a run, not one number for each side."""

MEAN, INTERVAL, EVERY_SEED = "mean", "interval", "every-seed"
Decider = Literal["mean", "interval", "every-seed"]
"""Which part of a measurement the bounds apply to: the mean, the whole interval, or each seed."""

NETWORK = "network"
"""The value of `needs` for a claim that needs a whole network."""

Number = Annotated[float, Field(strict=True)]
Several = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""One name or a list of names."""

Sides = Annotated[tuple[Several, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""One name for each side, or several names, of which the best variant counts."""


class Gate(Strict):
    """The condition on the measured number, which is a range or a sign."""

    by: Decider = "interval"
    at_least: Number | None = None
    at_most: Number | None = None
    direction: Literal["above", "below"] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        bounds = self.at_least is not None or self.at_most is not None
        if (self.direction is not None) == bounds:
            raise ValueError("give either a direction or bounds: at_least, at_most or both")
        if bounds and "by" not in self.model_fields_set:
            raise ValueError(f"by is missing; bounds need one of {', '.join(get_args(Decider))}")
        if self.direction and "by" in self.model_fields_set:
            raise ValueError("by needs at_least or at_most; a direction always uses the interval")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least is above at_most")
        return self

    def keeps(self, number: float) -> bool:
        """Whether a number meets the condition.

        A number equal to a bound meets it. Zero is neither above nor below zero.
        """
        if self.direction:
            return number > 0 if self.direction == "above" else number < 0
        return (self.at_least is None or number >= self.at_least) and (self.at_most is None or number <= self.at_most)

    def excludes(self, low: float, high: float) -> bool:
        """Whether all numbers between `low` and `high` fail the condition."""
        if self.direction:
            return not self.keeps(high if self.direction == "above" else low)
        return (self.at_least is not None and high < self.at_least) or (self.at_most is not None and low > self.at_most)


@dataclass(frozen=True)
class Side:
    """One of the quantities that a claim compares."""

    variants: tuple[str, ...]
    """The variants of the side; the variant with the smallest mean counts, or with `largest` that with the largest."""
    workload: str
    statistic: str
    """The statistic that reduces the values of one run to one number."""
    scenario: str
    """Name of a file beside the claims, without `.toml`."""
    largest: bool = False


def _check_hop(measure: str, hop: str) -> None:
    """Raise a ValueError if a measure at a hop has no hop, or another measure has one."""
    if (MEASURES[measure].table not in EVERYWHERE) != bool(hop):
        raise ValueError("a measure at a hop needs the key hop, and no other measure may have it")


class Claim(Strict):
    """One statement of a paper."""

    id: Text
    says: Text
    section: Text
    figure: str = ""
    scenario: Several = ()
    variants_of_sides: Annotated[Sides, Field(alias="variants")] = ()
    workload: Several = ()
    measure: str = ""
    hop: str = ""
    statistic: Several = ()
    above: Number = 0.0
    """The threshold of the statistic `share-above`, in the measure's unit."""
    compare: str = "value"
    gate: Annotated[Gate | None, BeforeValidator(lambda value: None if value is False else value)] = None
    why: str = ""
    """The reason for a missing gate, or for a claim that cannot be checked yet; with a gate, a remark."""
    needs: str = ""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, keys: dict[str, Any]) -> dict[str, Any]:
        says, words = keys.get("says"), keys.get("words", [])
        if not isinstance(says, str):
            return keys
        if not isinstance(words, list) or says.count("{}") != len(words):
            raise ValueError("words must have one string for each {} in says")
        return {key: value for key, value in keys.items() if key != "words"} | {"says": says.format(*words)}

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The compared quantities; a single variant, workload, statistic or scenario applies to all sides."""
        if self.needs:
            return ()
        count = COMPARES[self.compare]
        statistics = ("",) if self.compare in OF_SAMPLES else self.statistic
        keys = ("variants", "workload", "statistic", "scenario")
        lists: list[tuple[Any, ...]] = [self.variants_of_sides, self.workload, statistics, self.scenario]
        for key, values in zip(keys, lists, strict=True):
            if len(values) not in (1, count):
                raise ValueError(f"{key} takes one" + (f", or {count}: one for each side" if count > 1 else ""))
        if statistics != ("",) and not set(statistics) <= set(STATISTICS):
            raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}")
        each = zip(*(values * count if len(values) == 1 else values for values in lists), strict=True)
        sides = tuple(Side(*side) for side in each)
        if len(set(sides)) != count:
            raise ValueError("two sides have the same variants; compare different variants")
        if self.compare == WORST:
            sides = (replace(sides[0], largest=True), *sides[1:])
        return sides

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise a ValueError that begins with the wrong key."""
        if self.needs:
            return self
        for key, known in (("compare", COMPARES), ("measure", MEASURES)):
            if (value := getattr(self, key)) not in known:
                raise ValueError(f"{key} is {value!r}; it must be one of {', '.join(known)}")
        if "gate" not in self.model_fields_set:
            raise ValueError("gate is missing; give bounds or a direction, or false with the reason in `why`")
        if self.gate is None and not self.why:
            raise ValueError("why is missing; a claim without a gate needs a reason")
        if self.gate and self.compare == "ks":
            raise ValueError("gate must be false for ks, because downloads of one run are not independent")
        if self.gate and self.gate.direction and self.compare not in ("difference", "change", "ratio-change"):
            raise ValueError(
                "gate.direction needs compare to be difference, change or ratio-change; otherwise give bounds"
            )
        _check_hop(self.measure, self.hop)
        if ("above" in self.model_fields_set) != self.is_share:
            raise ValueError(f"the statistic {SHARE} needs the key above, and no other statistic may have it")
        return self

    @property
    def variants(self) -> list[str]:
        """Every variant of the sides, each once."""
        return list(dict.fromkeys(name for side in self.sides for name in side.variants))

    @property
    def scenarios(self) -> list[str]:
        """Every scenario of the sides, each once, in the order of the sides."""
        return list(dict.fromkeys(side.scenario for side in self.sides))

    def variants_in(self, scenario: str) -> set[str]:
        """The variants of the sides in one scenario."""
        return {name for side in self.sides if side.scenario == scenario for name in side.variants}

    @property
    def all_variants(self) -> set[str]:
        """The variants of all sides."""
        return {name for side in self.sides for name in side.variants}

    @property
    def is_share(self) -> bool:
        """Whether the claim measures the share of values above a threshold."""
        return any(side.statistic == SHARE for side in self.sides)

    def is_of(self, figure: str) -> bool:
        """Whether the claim is about `figure`; `5` includes 5a to 5d."""
        return curves.is_of(self.figure, figure)


class Column(Strict):
    """A quantity by which a table of trade-offs compares all variants."""

    title: Text
    measure: Text
    statistic: Text
    workload: Text = EVERY
    scenario: str = ""
    """The scenario with the same variants that measures the column; empty for the scenario of the table."""
    hop: str = ""
    """The hop of a measure at a hop; for a measure of an attack, the attack's name."""
    better: Literal["lower", "higher"]
    weight: Annotated[float, Field(ge=0)] = 1.0
    """The weight of the column in the score, until a reader of the report chooses another."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.measure not in MEASURES:
            raise ValueError(f"measure is {self.measure!r}; it must be one of {', '.join(MEASURES)}")
        _check_hop(self.measure, self.hop)
        if self.statistic not in STATISTICS or self.statistic == SHARE:
            known = (name for name in STATISTICS if name != SHARE)
            raise ValueError(f"statistic is {self.statistic!r}; it must be one of {', '.join(known)}")
        return self


class Tradeoffs(Strict):
    """A table that compares every variant of some scenarios with a baseline, by several quantities."""

    scenarios: Annotated[list[Text], Field(min_length=1)]
    baseline: Text
    columns: Annotated[list[Column], Field(min_length=2)]
    front: tuple[Text, Text]
    """The columns of the Pareto front: the x axis and the y axis."""
    baselines: Annotated[dict[str, Text], Field(default_factory=dict)]
    """The baselines of scenarios that have another one. Their tables have no columns of another scenario."""

    def baseline_of(self, scenario: str) -> str:
        """The variant with which the table of a scenario compares the others."""
        return self.baselines.get(scenario, self.baseline)

    def columns_of(self, scenario: str) -> list[Column]:
        """The columns of the table of a scenario."""
        return [column for column in self.columns if not column.scenario or scenario not in self.baselines]

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.baselines:
            if name not in self.scenarios:
                raise ValueError(f"baselines has {name!r}; it must be one of scenarios: {', '.join(self.scenarios)}")
        titles = [column.title for column in self.columns]
        for twice, count in Counter(titles).items():
            if count > 1:
                raise ValueError(f"columns has the title {twice!r} twice; give each column its own")
        for title in self.front:
            if title not in titles:
                raise ValueError(f"front has {title!r}; it must be the title of a column: {', '.join(titles)}")
        return self


class Setting(Strict):
    """A change of the network in which all compared variants run."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    """The last part of the name of its directory."""
    title: Text
    set: tuple[str, ...] = ()
    """Overrides of the scenario, as after `--set`; none for the scenario itself."""
    replay: str = ""
    """An earlier setting. All variants repeat the requests that its baseline made, in an open loop."""
    without: tuple[str, ...] = ()
    """Variants that this setting does not run."""


class Sensitivity(Strict):
    """Whether the changes of some variants against the baseline of the trade-offs depend on the network."""

    scenario: Text
    variants: Annotated[list[Text], Field(min_length=1)]
    """The variants beside the baseline."""
    columns: Annotated[list[Text], Field(min_length=1)]
    """Titles of columns of the trade-offs; no other scenario may measure them."""
    settings: Annotated[list[Setting], Field(min_length=2)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [setting.name for setting in self.settings]
        for key, words in (("settings", names), ("variants", self.variants), ("columns", self.columns)):
            for twice, count in Counter(words).items():
                if count > 1:
                    raise ValueError(f"{key} has {twice!r} twice; leave one of them out, or give it another name")
        earlier: dict[str, Setting] = {}
        for setting in self.settings:
            source = earlier.get(setting.replay)
            if setting.replay and (source is None or source.replay or source.set != setting.set):
                raise ValueError(
                    f"replay is {setting.replay!r} in the setting {setting.name!r}; it must be an earlier setting with "
                    "the same set, and without replay"
                )
            for variant in setting.without:
                if variant not in self.variants:
                    raise ValueError(
                        f"without has {variant!r} in the setting {setting.name!r}; it must be one of the variants "
                        f"{', '.join(self.variants)}"
                    )
            earlier[setting.name] = setting
        return self

    @property
    def by_directory(self) -> dict[str, Setting]:
        """The settings by the names of their directories, which stand for a scenario in claims."""
        return {self.directory(setting.name): setting for setting in self.settings}

    def directory(self, setting: str) -> str:
        """The name of a setting's directory."""
        return f"{self.scenario}-{setting}"


class Claims(Strict):
    """A claims file. A claim inherits missing keys from its group, and its section from the file."""

    folder: Path
    paper: Text
    title: Text
    section: str = ""
    scale: dict[str, dict[Literal["downloads", "duration_s", "warmup_s"], PositiveInt]] = Field(default_factory=dict)
    """The downloads and the duration that --scale multiplies, for each scenario; it does not shorten the warm-up."""
    claims: Annotated[list[Claim], Field(min_length=1)]
    tradeoffs: Tradeoffs | None = None
    sensitivity: Sensitivity | None = None

    @model_validator(mode="after")
    def _check_sensitivity(self) -> Self:
        if self.sensitivity is None:
            return self
        if self.tradeoffs is None:
            raise ValueError("sensitivity needs the baseline and the columns of a section [tradeoffs]")
        if self.tradeoffs.baseline in self.sensitivity.variants:
            raise ValueError(f"sensitivity.variants has the baseline {self.tradeoffs.baseline!r}; leave it out")
        for name in self.settings:
            if name in [*self.tradeoffs.scenarios, *self.companions] or (self.folder / f"{name}.toml").is_file():
                raise ValueError(
                    f"a setting has the directory {name}, which is a scenario; give the setting another name"
                )
        known = [column.title for column in self.tradeoffs.columns if not column.scenario]
        for title in self.sensitivity.columns:
            if title not in known:
                raise ValueError(f"sensitivity.columns has {title!r}; it must be one of {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        for twice, count in Counter(claim.id for claim in self.claims).items():
            if count > 1:
                raise ValueError(f"id {twice} is used twice; give each claim its own")
        return self

    @property
    def baseline(self) -> str:
        """The variant with which the tables of sensitivity compare the others.

        Raises:
            ValueError: if there is no such table.
        """
        return self.baseline_of("")

    def baseline_of(self, scenario: str) -> str:
        """The variant with which the table of trade-offs of a scenario compares the others.

        Raises:
            ValueError: if there is no such table.
        """
        if self.tradeoffs is None:
            raise ValueError("only tables of trade-offs and of sensitivity have a baseline")
        return self.tradeoffs.baseline_of(scenario)

    def columns_of(self, scenario: str) -> list[Column]:
        """The columns of the table of trade-offs of a scenario."""
        return self.tradeoffs.columns_of(scenario) if self.tradeoffs else []

    def with_baselines(self, variants: Set[str], scenarios: Iterable[str]) -> set[str]:
        """These variants, and the baselines of tables on these scenarios."""
        return {*variants, *(self.baseline_of(name) for name in scenarios if self.tradeoffs)}

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings of the sensitivity by the names of their directories."""
        return self.sensitivity.by_directory if self.sensitivity else {}

    def file_of(self, name: str) -> str:
        """The file of a scenario or setting, beside the claims, without `.toml`."""
        return self.sensitivity.scenario if self.sensitivity and name in self.settings else name

    def scenario(self, name: str) -> str:
        """The name of one of its scenarios, or of a setting's scenario, on the command line."""
        shelf = catalog.SHIPPED.resolve()
        path = self.folder.resolve() / f"{self.file_of(name)}.toml"
        return path.relative_to(shelf).with_suffix("").as_posix() if path.is_relative_to(shelf) else str(path)

    def replayed(self, name: str) -> str | None:
        """The setting whose requests the setting `name` repeats; `None` for scenarios and other settings."""
        setting = self.settings.get(name)
        return self.sensitivity.directory(setting.replay) if self.sensitivity and setting and setting.replay else None

    def has(self, name: str) -> bool:
        """Whether the file of the scenario or setting exists."""
        return (self.folder / f"{self.file_of(name)}.toml").is_file()

    def of(self, figure: str | None, scenario: str | None = None) -> list[Claim]:
        """The claims about one figure, those that one scenario decides, or all claims."""
        chosen = [claim for claim in self.claims if figure is None or claim.is_of(figure)]
        if not chosen:
            known = dict.fromkeys(claim.figure for claim in self.claims if claim.figure)
            raise PenstockError(f"--figure is {figure}; {self.paper} has claims about figures {', '.join(known)}")
        if scenario is None:
            return chosen
        names = [name for claim in chosen for name in claim.scenarios]
        known = dict.fromkeys(map(self.file_of, [*names, *self.tradeoffs_of(figure), *self.settings_of(figure)]))
        if scenario not in known:
            raise PenstockError(f"--scenario is {scenario}; these claims have the scenarios {', '.join(known)}")
        return [claim for claim in chosen if scenario in map(self.file_of, claim.scenarios)]

    def tradeoffs_of(self, figure: str | None, scenario: str | None = None) -> list[str]:
        """The scenarios of the table of trade-offs, or one of them; none if `figure` selects claims."""
        every = self.tradeoffs.scenarios if self.tradeoffs and figure is None else []
        return [name for name in every if scenario in (None, name)]

    def settings_of(self, figure: str | None, scenario: str | None = None) -> list[str]:
        """The settings of the sensitivity; none if `figure` selects claims, or `scenario` another scenario."""
        return [name for name in self.settings if figure is None and scenario in (None, self.file_of(name))]

    @property
    def companions(self) -> list[str]:
        """The other scenarios that measure columns of the tables of trade-offs, each once; --scale ignores them."""
        columns = self.tradeoffs.columns if self.tradeoffs else []
        return list(dict.fromkeys(column.scenario for column in columns if column.scenario))


class _Group(BaseModel, extra="allow"):
    """Claims that share all keys except the keys in `cases`."""

    cases: list[dict[str, Any]] = [{}]


class _Repeat(Strict):
    """The claims of one scenario, which another scenario measures too, with the same bounds."""

    of: Text
    scenario: Text
    prefix: Text
    """The beginning of the repeated claims' ids."""
    without: list[Text] = Field(default_factory=list)
    """The ids of claims whose variants the other scenario lacks."""

    def copies(self, claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The repeated claims. Claims that compare several scenarios are not repeated."""
        mine = [claim for claim in claims if claim.get("scenario") == self.of]
        if not mine:
            raise ValueError(f"of is {self.of!r}; no claim has this scenario")
        unknown = set(self.without) - {claim.get("id") for claim in mine}
        if unknown:
            raise ValueError(f"without has {', '.join(sorted(unknown))}; {self.of} has no such claim")
        return [
            {**claim, "id": f"{self.prefix}-{claim['id']}", "scenario": self.scenario}
            for claim in mine
            if claim.get("id") not in self.without
        ]


class _Groups(BaseModel):
    section: str | None = None
    claims: list[_Group]
    repeats: list[_Repeat] = []


def load(name: str) -> Claims:
    """The claims of a shipped paper, or those in a folder of the user's."""
    folder = Path(name)
    with naming(folder, "read"):
        own = (folder / catalog.CLAIMS).is_file()
    if not own:
        papers = catalog.papers()
        if name not in papers:
            hint = ", ".join(papers)
            raise PenstockError(f"there is no paper {name!r}; there are {hint}, and any folder with a {catalog.CLAIMS}")
        folder = catalog.SHIPPED / name
    path = folder / catalog.CLAIMS
    try:
        document = tomllib.loads(catalog.text(path))
    except tomllib.TOMLDecodeError as error:
        raise PenstockError(f"{path} is not TOML: {error}") from error
    groups = parse(_Groups, document, path)
    shared = {} if groups.section is None else {"section": groups.section}
    claims = [{**shared, **(group.model_extra or {}), **case} for group in groups.claims for case in group.cases]
    document.pop("repeats", None)
    try:
        copies = [copy for repeat in groups.repeats for copy in repeat.copies(claims)]
    except ValueError as error:
        raise PenstockError(f"{path}: {error}") from error
    return parse(Claims, {**document, "claims": claims + copies, "folder": folder}, path)
