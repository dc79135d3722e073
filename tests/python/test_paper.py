"""Claims: the shipped files are right, verdicts follow from the numbers, and a paper runs and resumes."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from conftest import SMALL, Command, sentence

from penstock import catalog
from penstock.errors import Cancelled, OutputError, PenstockError
from penstock.figures import ordered
from penstock.functions import run_paper
from penstock.output import Job, OutputDir
from penstock.paper import Claim, Claims, decide, load, plan, runner, table
from penstock.paper.totals import EVERY
from penstock.paper.verdicts import FAILS, HOLDS, NEEDS_NETWORK, NOT_GATED, NOT_YET, UNDECIDED, undecidable
from penstock.result import Result

HEAD = 'paper = "made-up"\ntitle = "Made up"\n[scale.small]\nduration_s = 30\n'

ONE = {
    "id": '"one"', "section": '"1"', "says": '"The web client waits 4.3 s."', "scenario": '"small"',
    "variants": '["stock"]', "workload": '"web"', "measure": '"ttfb_s"', "statistic": '"median"',
    "gate": '{ at_least = 3.3, at_most = 5.7, by = "mean" }',
}  # fmt: skip


def entry(**changes: str | None) -> str:
    """A [[claims]] table: the first one with changes, in TOML; None leaves a key out."""
    keys = {key: value for key, value in {**ONE, **changes}.items() if value is not None}
    return "[[claims]]\n" + "\n".join(f"{key} = {value}" for key, value in keys.items()) + "\n"


@pytest.fixture
def claimed(tmp_path: Path) -> Callable[..., Claims]:
    """Reads a claims file with these entries."""

    def read(*entries: str, head: str = HEAD) -> Claims:
        (tmp_path / "claims.toml").write_text(head + "\n".join(entries))
        return load(str(tmp_path))

    return read


@pytest.mark.parametrize("name", catalog.papers())
def test_the_claims_of_a_shipped_paper_fit_its_scenarios(name: str) -> None:
    claims = load(name)
    assert claims.paper == name
    used = {scenario for claim in claims.claims for scenario in claim.scenarios if claims.has(scenario)}
    for scenario in used:
        _, document = catalog.load(claims.scenario(scenario))
        text = {variant: document.resolved(variant) for variant, _ in document.variants()}
        for claim in claims.claims:
            assert claim.variants_in(scenario) <= set(text), claim.id
            for side in claim.sides:
                if side.scenario != scenario:
                    continue
                workload = "" if side.workload == EVERY else side.workload
                assert f"[workloads.{workload}" in text[side.variants[0]], claim.id
        if scenario in claims.companions:
            continue
        # What --scale scales is what the scenario says, or scaling by 1 would change it.
        assert claims.file_of(scenario) in claims.scale
        what = claims.scale[claims.file_of(scenario)]
        sets = [f"run.stop.downloads={what['downloads']}"] if "downloads" in what else []
        sets += [f'run.duration="{what["duration_s"]} s"'] if "duration_s" in what else []
        sets += [f'run.warmup="{what.get("warmup_s", 0)} s"'] if "duration_s" in what else []
        assert catalog.load(claims.scenario(scenario), tuple(sets))[1].fingerprint() == document.fingerprint()


def test_a_claims_file_is_no_scenario() -> None:
    assert {"defenestrator", "ewma", "kist"} <= set(catalog.papers())
    assert not [name for name in catalog.shipped() if name.endswith("claims")]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"measure": '"tfb_s"'}, "claims.one: measure is 'tfb_s'; it must be one of"),
        ({"statistic": '"average"'}, "claims.one: statistic must be one of"),
        ({"gate": "false"}, "claims.one: why is missing"),
        ({"gate": None}, "claims.one: gate is missing"),
        ({"gate": '{ at_least = 2, at_most = 1, by = "mean" }'}, "at_least is above at_most"),
        ({"gate": "{ at_least = 2 }"}, "claims.one.gate: by is missing; bounds need one of mean, interval"),
        (
            {"gate": '{ at_least = 2, by = "median" }'},
            "claims.one.gate.by is 'median'; it must be one of 'mean', 'interval'",
        ),
        ({"gate": '{ at_least = 2, direction = "above" }'}, "give either a direction or bounds"),
        ({"gate": '{ direction = "above" }'}, "gate.direction needs compare to be difference, change or ratio-change"),
        (
            {"gate": '{ direction = "above", by = "mean" }', "compare": '"change"', "variants": '["stock", "small"]'},
            "by needs at_least or at_most; a direction always uses the interval",
        ),
        (
            {"gate": '{ direction = "not-below" }', "compare": '"change"', "variants": '["stock", "small"]'},
            "gate.direction is 'not-below'; it must be one of 'above', 'below'",
        ),
        (
            {"compare": '"ks"', "variants": '["stock", "small"]'},
            "gate must be false for ks, because downloads of one run are not independent",
        ),
        ({"hop": '"exit"'}, "a measure at a hop needs the key hop"),
        ({"measure": '"queue_cells"'}, "a measure at a hop needs the key hop"),
        ({"above": "4.0"}, "the statistic share-above needs the key above"),
        ({"compare": '"ratio"'}, "two sides have the same variants; compare different variants"),
        ({"compare": '"gain"', "variants": '["stock", "small"]'}, "variants takes one, or 3"),
        ({"workloads": '"web"'}, "workloads is unknown"),
        ({"says": None}, "says is missing"),
    ],
)
def test_mistakes_in_a_claim_are_named(claimed: Callable[..., Claims], changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(PenstockError, match=r"claims\.toml") as caught:
        claimed(entry(**changes))
    assert sentence in str(caught.value)


def test_cases_take_the_keys_of_their_group_and_of_the_file(claimed: Callable[..., Claims]) -> None:
    group = entry(id=None, section=None, variants=None, says='"The {} client waits {} s."')
    cases = """cases = [
        { id = "one", variants = ["stock"], words = ["web", "4.3"] },
        { id = "two", variants = ["small"], words = ["fast", "1"], section = "2", gate = false, why = "it varies" },
    ]
    """
    claims = claimed(group + cases, head=HEAD.replace("[scale", 'section = "7"\n[scale')).claims
    assert [(claim.id, claim.section, claim.says) for claim in claims] == [
        ("one", "7", "The web client waits 4.3 s."),
        ("two", "2", "The fast client waits 1 s."),
    ]
    assert [claim.sides[0].variants for claim in claims] == [("stock",), ("small",)]
    assert [claim.gate and claim.gate.at_most for claim in claims] == [5.7, None]


@pytest.mark.parametrize(
    ("cases", "sentence"),
    [
        ('[{ id = "one", words = ["web"] }]', "claims.one: words must have one string for each {} in says"),
        ('[{ id = "one", says = "x", speed = 1 }]', "claims.one: speed is unknown; known keys are above, "),
        ('[{ id = "one", says = "x", measure = 3 }]', "claims.one.measure is 3; it should be a valid string"),
        ('["one"]', "claims.one.cases.0 is 'one'; it should be a valid dictionary"),
        ("3", "claims.one.cases is 3; it should be a valid list"),
    ],
)
def test_mistakes_in_a_case_are_named(claimed: Callable[..., Claims], cases: str, sentence: str) -> None:
    with pytest.raises(PenstockError, match=r"claims\.toml") as caught:
        claimed(entry(says='"{} {}"') + f"cases = {cases}\n")
    assert sentence in str(caught.value)


def test_two_claims_have_two_names(claimed: Callable[..., Claims]) -> None:
    with pytest.raises(PenstockError, match="id one is used twice"):
        claimed(entry(), entry())


def test_another_scenario_repeats_the_claims_of_one_with_the_same_bounds(claimed: Callable[..., Claims]) -> None:
    repeat = """[[repeats]]
        of = "small"
        scenario = "larger"
        prefix = "larger"
        without = ["three"]
    """
    claims = claimed(entry(), entry(id='"two"', scenario='"other"'), entry(id='"three"'), repeat).claims
    assert [(claim.id, claim.scenarios) for claim in claims] == [
        ("one", ["small"]),
        ("two", ["other"]),
        ("three", ["small"]),
        ("larger-one", ["larger"]),
    ]
    assert claims[3].gate == claims[0].gate
    with pytest.raises(PenstockError, match=r"claims\.toml: without has two; small has no such claim"):
        claimed(entry(), entry(id='"two"', scenario='"other"'), repeat.replace("three", "two"))
    with pytest.raises(PenstockError, match=r"claims\.toml: of is 'smal'; no claim has this scenario"):
        claimed(entry(), repeat.replace('of = "small"', 'of = "smal"'))


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Three seeds with medians that can be worked out in the head."""
    directory = synthetic.write(tmp_path_factory.mktemp("known") / "out", ("stock", "small", "dynamic"), 3)
    medians = {"stock": (4.0, 5.0, 6.0), "small": (1.0, 1.0, 1.0), "dynamic": (4.1, 5.1, 5.8)}
    rows = [
        {
            "variant": variant, "network": "", "seed": seed, "client": "web", "workload": "web", "circuit": 1,
            "stream": 1, "direction": "download", "bytes": 1, "bytes_received": 1, "start_s": 1.0,
            "connect_s": 0.1, "ttfb_s": time, "ttlb_s": 2 * time, "outcome": "ok", "warmup": False,
        }
        for variant, of_seeds in medians.items()
        for seed, median in enumerate(of_seeds, start=1)
        for time in (median - 0.5, median, median + 0.5)
    ]  # fmt: skip
    cut = {"stream": 2, "bytes_received": 7, "ttfb_s": None, "ttlb_s": None, "outcome": "unfinished"}
    rows += [{**row, **cut} for row in rows[::3]]
    pl.DataFrame(rows).write_parquet(directory / "transfers.parquet")
    return Result(directory)


DIFFERENCE = {"compare": '"difference"', "variants": '["small", "stock"]'}


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({}, 5.0),
        ({"statistic": '"max"'}, 5.5),
        ({"measure": '"ttlb_s"'}, 10.0),
        # Three whole downloads of a byte, and seven bytes of one that was cut off.
        ({"measure": '"bytes_received"', "statistic": '"sum"'}, 10.0),
        ({"statistic": '"share-above"', "above": "4.9"}, (0 + 2 / 3 + 1) / 3),
        (DIFFERENCE, -4.0),
        ({**DIFFERENCE, "statistic": '["max", "min"]'}, 1.5 - 4.5),
        ({**DIFFERENCE, "compare": '"ratio"'}, (1 / 4 + 1 / 5 + 1 / 6) / 3),
        ({**DIFFERENCE, "compare": '"change"'}, -(3 / 4 + 4 / 5 + 5 / 6) / 3),
        # Gains of 3, 4 and 5 s with small, and of -0.1, -0.1 and 0.2 s with dynamic.
        ({"compare": '"gain"', "variants": '["small", "stock", ["dynamic", "small"]]'}, 1.0),
        ({"compare": '"gain"', "variants": '["dynamic", "stock", "small"]'}, 0.0),
        # Of three downloads each: apart in seed 1 to 3, or a third of them.
        ({**DIFFERENCE, "compare": '"ks"', "statistic": None}, 1.0),
        ({"compare": '"ks"', "statistic": None, "variants": '["dynamic", "stock"]'}, 1 / 3),
        ({**DIFFERENCE, "compare": '"quantiles-below"', "statistic": None}, 1.0),
        # All of seed 3's, and none of the others'.
        ({"compare": '"quantiles-below"', "statistic": None, "variants": '["dynamic", "stock"]'}, 1 / 3),
    ],
)
def test_a_measured_value_is_the_mean_over_seeds(
    claimed: Callable[..., Claims], known: Result, changes: dict[str, str], measured: float
) -> None:
    checked = decide(claimed(entry(**{**changes, "gate": "false", "why": '"no number"'})).claims[0], {"small": known})
    assert checked.measured == pytest.approx(measured, abs=1e-12)
    assert (checked.verdict, checked.missed) == (NOT_GATED, False)


def test_sides_may_be_of_several_scenarios(claimed: Callable[..., Claims], known: Result, made_up: Path) -> None:
    both = {"scenario": '["small", "large"]', "compare": '"difference"', "gate": "false", "why": '"no number"'}
    claim = claimed(entry(**both)).claims[0]
    assert (claim.scenarios, claim.variants_in("large")) == (["small", "large"], {"stock"})
    assert decide(claim, {"small": known, "large": known}).measured == 0
    other = decide(claim, {"small": known, "large": Result(made_up)})
    assert other.n == 3, "the seeds that both have"
    assert other.measured != 0


@pytest.mark.parametrize(
    ("compare", "variants", "measured"),
    [
        # Seeds have 4, 5, 6 with stock and 1, 1, 1 with small.
        ("ratio-change", '["stock", "small", "small", "stock"]', (16 + 25 + 36) / 3 - 1),
        ("mean-ratio", '["stock", "small", "stock", "small", "small", "stock"]',
         ((4 + 4 + 1 / 4) + (5 + 5 + 1 / 5) + (6 + 6 + 1 / 6)) / 9),
    ],
)  # fmt: skip
def test_several_ratios_are_compared_or_averaged(
    claimed: Callable[..., Claims], known: Result, compare: str, variants: str, measured: float
) -> None:
    many = {"compare": f'"{compare}"', "variants": variants, "gate": "false", "why": '"no number"'}
    table = claimed_sides(many, variants)
    checked = decide(claimed(entry(**table)).claims[0], {"small": known, "large": known, "third": known})
    assert checked.measured == pytest.approx(measured)


def claimed_sides(keys: dict[str, str], variants: str) -> dict[str, str]:
    """Each pair of sides is of a scenario of its own."""
    names = ["small", "large", "third"]
    count = variants.count(",") + 1
    return {**keys, "scenario": json.dumps([names[i // 2] for i in range(count)])}


def test_an_interval_is_that_of_the_seeds(claimed: Callable[..., Claims], known: Result) -> None:
    checked = decide(claimed(entry()).claims[0], {"small": known})
    # Student's t for 2 degrees of freedom, two-sided 95 %: 4.302653; the standard deviation of 4, 5, 6 is 1.
    half = 4.302653 / math.sqrt(3)
    assert (checked.low, checked.high) == pytest.approx((5 - half, 5 + half), rel=1e-6)
    assert checked.seeds == (4.0, 5.0, 6.0)


def test_a_claim_without_measurement_is_undecided_and_missed(claimed: Callable[..., Claims], known: Result) -> None:
    nobody = decide(claimed(entry(workload='"mail"')).claims[0], {"small": known})
    assert (nobody.verdict, nobody.missed) == (UNDECIDED, True)


def test_queues_and_waits_are_measured_at_a_hop(claimed: Callable[..., Claims], made_up: Path) -> None:
    result = Result(made_up)
    at_exit = {"hop": '"exit"', "workload": '"bulk"', "gate": '{ at_most = 101, by = "every-seed" }'}
    for variant, verdict in (("stock", FAILS), ("small", HOLDS)):
        claim = entry(**{**at_exit, "measure": '"queue_cells"', "statistic": '"max"', "variants": f'["{variant}"]'})
        checked = decide(claimed(claim).claims[0], {"small": result})
        assert (checked.verdict, checked.n) == (verdict, 5)
    wait = entry(**{**at_exit, "measure": '"circuit_queue_s"', "statistic": '"mean"'})
    mean = result.cells.filter(variant="stock", workload="bulk", hop="exit")["circuit_queue_s"].mean()
    assert decide(claimed(wait).claims[0], {"small": result}).measured == pytest.approx(mean)


def test_a_claim_waits_for_its_scenario_or_a_network(claimed: Callable[..., Claims]) -> None:
    network, other = entry(needs='"network"'), entry(id='"two"', needs='"hidden services"')
    claims = claimed(network, other, entry(id='"three"'))
    verdicts = [undecidable(claim, lambda _: False) for claim in claims.claims]
    assert [each.verdict for each in verdicts if each] == [NEEDS_NETWORK, NOT_YET, NOT_YET]
    assert undecidable(claims.claims[2], lambda _: True) is None


def test_a_figure_means_its_parts(claimed: Callable[..., Claims]) -> None:
    claims = claimed(*(entry(id=f'"c{n}"', figure=f'"{n}"') for n in ("5a", "5b", "15")))
    ids: Callable[[str | None], list[str]] = lambda figure: [claim.id for claim in claims.of(figure)]  # noqa: E731
    assert (ids("5"), ids("5b"), ids(None)) == (["c5a", "c5b"], ["c5b"], ["c5a", "c5b", "c15"])
    with pytest.raises(PenstockError, match="--figure is 6; made-up has claims about figures 5a, 5b, 15"):
        claims.of("6")


def test_only_marked_values_are_scaled(claimed: Callable[..., Claims]) -> None:
    claims = claimed(entry())
    assert plan.scaled(claims, "small", 1.0) == ()
    assert plan.scaled(claims, "small", 0.5) == ('run.duration="15 s"',)
    assert plan.scaled(load("defenestrator"), "bottleneck", 0.1) == ("run.stop.downloads=20",)
    with pytest.raises(PenstockError, match="has no downloads or duration to scale"):
        plan.scaled(claims, "other", 0.5)
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(PenstockError, match="takes a number above 0"):
            plan.scaled(claims, "small", scale)


def test_the_warm_up_is_not_scaled(claimed: Callable[..., Claims]) -> None:
    claims = claimed(entry(), head=HEAD + "warmup_s = 10\n")
    assert plan.scaled(claims, "small", 0.5) == ('run.duration="20 s"',)
    assert plan.scaled(claims, "small", 0.001) == ('run.duration="11 s"',)


TOO_SHORT = {("marut", "step")}
"""Shipped scenarios that a tenth makes too short: one has a change after a minute."""


@pytest.mark.parametrize("paper", catalog.papers())
def test_a_tenth_of_a_shipped_experiment_can_run(paper: str) -> None:
    claims = load(paper)
    for scenario in claims.scale:
        if (paper, scenario) not in TOO_SHORT:
            catalog.load(claims.scenario(scenario), plan.scaled(claims, scenario, 0.1))


def test_an_experiment_that_is_too_short_names_the_option(penstock: Command) -> None:
    refused = sentence(penstock("paper", "marut", "--scenario", "step", "--scale", "0.1", "--out", "out"))
    assert "--scale 0.1 is too small for marut/step" in refused
    assert "use a larger --scale, or leave it out" in refused
    assert not (penstock.directory / "out").exists()


def test_a_bound_is_written_with_its_unit(claimed: Callable[..., Claims]) -> None:
    def shown(**changes: str) -> str:
        claim: Claim = claimed(entry(**changes)).claims[0]
        return table.bound(claim)

    assert shown() == "3.3 s to 5.7 s"
    change = {**DIFFERENCE, "compare": '"change"'}
    assert shown(**change, gate='{ at_least = -0.55, at_most = -0.2, by = "mean" }') == "-55 % to -20 %"
    assert shown(**change, gate='{ at_least = -0.05, by = "interval" }') == "at least -5 %, the interval"
    assert shown(**change, gate='{ at_most = 0.1, by = "every-seed" }') == "at most 10 %, each seed"
    assert shown(**change, gate='{ direction = "above" }') == "above 0"


def test_labels_that_differ_in_a_number_are_a_sweep() -> None:
    found = ordered.find({"off": "unprioritized", "a": "half-life 10 s", "b": "half-life 1.5 s", "c": "half-life 66 s"})
    assert found is not None
    assert found.quantity == "half-life [s]"
    assert found.values == {"b": 1.5, "a": 10.0, "c": 66.0}
    assert found.others == {"off": "unprioritized"}
    assert ordered.find({"stock": "stock Tor", "50KiB": "50 KiB window", "dynamic": "dynamic window"}) is None


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A paper of the user's: a scenario that runs in no time, a claim that holds and one that does not."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "small.toml").write_text(SMALL)
    slow = {"figure": '"1a"', "gate": '{ at_least = 100.0, by = "every-seed" }', "id": '"slow"'}
    fast = {"figure": '"1b"', "variants": '["small"]', "gate": '{ at_most = 100.0, by = "every-seed" }', "id": '"fast"'}
    later = entry(id='"later"', figure='"2"', scenario='"other"')
    (folder / "claims.toml").write_text(HEAD + entry(**slow) + entry(**fast) + later)
    return folder


def test_a_paper_ends_in_verdicts_and_a_report(penstock: Command, own: Path) -> None:
    done = penstock("paper", own, "--runs", "2", "--scale", "0.5", "--out", "out")
    assert done.status == 0, done.err
    assert "The verdicts of 3 claims are holds (1), fails (1), not yet (1). At scale 0.5" in done.out
    out = penstock.directory / "out"
    verdicts = json.loads((out / "claims.json").read_text())
    assert (verdicts["paper"], verdicts["scale"], verdicts["finished"]) == ("made-up", 0.5, True)
    slow, fast, later = verdicts["claims"]
    assert (slow["verdict"], fast["verdict"], later["verdict"]) == ("fails", "holds", "not yet")
    assert (slow["n"], slow["gate"], slow["unit"]) == (2, {"at_least": 100.0, "by": "every-seed"}, "s")
    assert slow["interval"][0] <= slow["measured"] <= slow["interval"][1]
    assert slow["reason"] == ""
    assert later["measured"] is None
    assert slow["evidence"] == ["small/transfers.parquet", "small/figures/downloads.png"]
    assert all((out / path).is_file() for path in slow["evidence"])
    page = (out / "report.html").read_text()
    for said in ("Claim by claim", 'class="fails"', "The web client waits 4.3 s.", "there is no scenario other yet"):
        assert said in page
    manifest = json.loads((out / "small" / "manifest.json").read_text())
    assert manifest["scenario"]["sets"] == ['run.duration="15 s"']
    # The same again runs nothing and checks the claims again; a failed claim is an error only if that is asked for.
    before = (out / "small" / "transfers.parquet").stat().st_mtime_ns
    again = penstock("paper", own, "--runs", "2", "--scale", "0.5", "--out", "out", "--strict")
    assert (again.status, again.err) == (1, "")
    assert (out / "small" / "transfers.parquet").stat().st_mtime_ns == before
    other = penstock("paper", own, "--runs", "2", "--out", "out")
    assert (other.status, other.err.count("\n")) == (2, 1)
    assert "holds scale 0.5, not 1.0; choose another --out" in other.err


def test_overrides_change_the_runs_and_stay_with_the_directory(penstock: Command, own: Path) -> None:
    page = penstock.directory / "page.md"
    arguments = ("paper", own, "--runs", "1", "--out", "out", "--scale", "0.5")
    done = penstock(*arguments, "--set", "network.loss=0.01", "--markdown", page)
    assert done.status == 0, done.err
    assert "With `network.loss=0.01`; the bounds apply without these overrides." in done.out
    assert "<!-- begin generated: penstock paper made-up --set network.loss=0.01 -->" in page.read_text()
    out = penstock.directory / "out"
    manifest = json.loads((out / "small" / "manifest.json").read_text())
    assert manifest["scenario"]["sets"] == ['run.duration="15 s"', "network.loss=0.01"]
    assert json.loads((out / "claims.json").read_text())["sets"] == ["network.loss=0.01"]
    assert sentence(penstock(*arguments)).endswith(
        "was made with --set network.loss=0.01; repeat this, or choose another --out"
    )
    outcome = run_paper(str(own), runs=1, scale=0.5, sets={"network.loss": 0.01}, out=out)
    assert outcome.sets == ("network.loss=0.01",), "the same directory, without a run"
    wrong = sentence(penstock("paper", own, "--set", "network.los=0.01"))
    assert "small.toml (small): --set network.los=0.01: " in wrong
    # A page without the block is refused before the first run.
    assert "has no generated block of this name" in sentence(penstock("paper", own, "--out", "new", "--markdown", page))
    assert not (penstock.directory / "new").exists()
    for key in ("run.duration", "run.warmup"):
        twice = sentence(penstock("paper", own, "--scale", "0.5", "--set", f'{key}="12 s"'))
        assert f"sets {key} already, by --scale or as a setting of its claims" in twice
    assert penstock("paper", own, "--runs", "1", "--out", "short", "--set", 'run.duration="12 s"').status == 0


def test_a_finished_paper_becomes_a_markdown_table_without_a_run(penstock: Command, own: Path) -> None:
    arguments = ("paper", own, "--runs", "2", "--out", "out", "--jobs", "1")
    assert penstock(*arguments).status == 0
    table = penstock.directory / "out" / "small" / "transfers.parquet"
    before = table.stat().st_mtime_ns
    page = penstock.directory / "page.md"
    page.write_text(
        "# Made up\n\n<!-- begin generated: penstock paper made-up -->\nold\n<!-- end generated -->\n\nEnd.\n"
    )
    done = penstock(*arguments, "--markdown", page)
    assert (done.status, table.stat().st_mtime_ns) == (0, before), done.err
    lines = page.read_text().splitlines()
    assert (lines[0], lines[2], lines[-3], lines[-1]) == (
        "# Made up",
        "<!-- begin generated: penstock paper made-up -->",
        "<!-- end generated -->",
        "End.",
    )
    assert "The verdicts of 3 claims are holds (1), fails (1), not yet (1)." in lines
    rows = [line for line in lines if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["slow", "fast", "later"], "failing rows first, then by figure"
    assert "fig. 1a: The web client waits 4.3 s. | at least 100 s, each seed | " in rows[0]
    assert rows[0].endswith("| 2 | **fails** |  |")
    assert any(line.startswith("*Generated by Penstock ") and line.endswith(".*") for line in lines)
    mine = penstock.directory / "mine.md"
    mine.write_text("My thesis.\n")
    refused = penstock(*arguments, "--markdown", mine)
    assert (refused.status, mine.read_text()) == (2, "My thesis.\n")
    assert "add the lines <!-- begin generated: penstock paper made-up --> and <!-- end generated -->" in refused.err


def test_a_figure_runs_only_the_variants_that_it_compares(penstock: Command, own: Path) -> None:
    done = penstock("paper", own, "--figure", "1b", "--runs", "2", "--strict")
    assert done.status == 0, done.err
    manifest = json.loads((penstock.directory / "runs" / "paper-made-up-1" / "small" / "manifest.json").read_text())
    assert manifest["asked"]["variants"] == ["small"]


def test_a_scenario_has_its_claims_alone_in_a_block_of_its_own(penstock: Command, own: Path) -> None:
    page = penstock.directory / "page.md"
    page.write_text("<!-- begin generated: penstock paper made-up --scenario small -->\n<!-- end generated -->\n")
    done = penstock("paper", own, "--scenario", "small", "--runs", "2", "--markdown", page)
    assert done.status == 0, done.err
    assert [row.split("`")[1] for row in page.read_text().splitlines() if row.startswith("| `")] == ["slow", "fast"]
    refused = penstock("paper", own, "--scenario", "huge", "--runs", "2")
    assert (refused.status, "--scenario is huge; these claims have the scenarios small, other" in refused.err) == (
        2,
        True,
    )


def test_a_stopped_paper_resumes_where_it_stopped(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    commit, kept = OutputDir.commit, list[str]()

    def one_then_stop(self: OutputDir, job: Job, stats: dict[str, Any]) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(job.variant)
        commit(self, job, stats)

    monkeypatch.setattr(OutputDir, "commit", one_then_stop)
    with pytest.raises(Cancelled, match=f"the same command with --out {out} executes the others"):
        runner.run(str(own), seeds=1, out=out)

    def note(self: OutputDir, job: Job, stats: dict[str, Any]) -> None:
        kept.append(job.variant)
        commit(self, job, stats)

    monkeypatch.setattr(OutputDir, "commit", note)
    outcome = runner.run(str(own), seeds=1, out=out)
    assert sorted(kept) == ["small", "stock"]
    assert [each.n for each in outcome.checked] == [1, 1, 0]
    with pytest.raises(OutputError, match="is a finished output with fewer variants or seeds"):
        runner.run(str(own), seeds=2, out=out)


def test_a_foreign_directory_and_an_unknown_paper_are_refused(penstock: Command, own: Path) -> None:
    (penstock.directory / "mine").mkdir()
    (penstock.directory / "mine" / "thesis.txt").write_text("")
    done = penstock("paper", own, "--out", "mine")
    assert (done.status, done.err) == (
        2,
        "penstock: mine exists and is not an output of penstock paper; choose another --out\n",
    )
    done = penstock("paper", "torrent")
    assert done.status == 2
    assert "there is no paper 'torrent'; there are attacks, capstone, defenestrator, ewma, kist" in done.err
