"""Whatever a user does wrong ends in one sentence on standard error and exit status 2, and leaves nothing behind."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from conftest import SMALL, Command, sentence


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("run.speed=3", ["run.speed", "unknown", "duration"]),
        ('relays.middle.link="128"', ["relays.middle.link", "unit"]),
        ('relays.middle.link="128 furlong"', ["relays.middle.link", "furlong", "KiB/s"]),
        ('relays.middle.link="0 KiB/s"', ["relays.middle.link", "zero"]),
        ('network.rtt="-80 ms"', ["network.rtt", "negative"]),
        ('clients.web.path=["entry", "nowhere", "exit"]', ["clients.web.path", "nowhere", "entry"]),
        ("run.duration", ["key=value"]),
    ],
    ids=["unknown key", "no unit", "wrong unit", "zero rate", "negative delay", "missing relay", "no value"],
)
@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_wrong_override_is_refused(penstock: Command, small: Path, verb: str, override: str, said: list[str]) -> None:
    refused = sentence(penstock(verb, small, "--set", override))
    for word in said:
        assert word in refused
    assert not (penstock.directory / "runs").exists()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cells = 10", "sells = 10"),
        ('link = "256 KiB/s"', 'link = "256 KiB"'),
        ('link = "256 KiB/s"', 'link = "0 KiB/s"'),
        ('pause = "uniform(1 s, 2 s)"', 'pause = "-1 s"'),
        ('path = ["entry", "middle", "exit"]', 'path = ["entry", "muddle", "exit"]'),
        ('duration = "30 s"', 'duration = "30 s'),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_its_line(penstock: Command, small: Path, right: str, wrong: str) -> None:
    line = 1 + SMALL[: SMALL.index(right)].count("\n")
    small.write_text(SMALL.replace(right, wrong))
    assert f"{small}:{line}: " in sentence(penstock("run", small))
    assert not (penstock.directory / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--variant", "large"], "there is no variant 'large'; this scenario has stock, small"),
        (["--runs", "0"], "--runs"),
        (["--runs", "many"], "--runs"),
        (["--seed", "-1"], "--seed"),
        (["--jobs", "0"], "--jobs"),
        (["--world", "testbed", "--networks", "2"], "testbed"),
        (["--world", "mars"], "mars"),
        (["--speed", "3"], "--speed"),
    ],
)
def test_a_wrong_option_is_refused(penstock: Command, small: Path, arguments: list[str], said: str) -> None:
    assert said in sentence(penstock("run", small, *arguments))
    assert not (penstock.directory / "runs").exists()


def test_a_scenario_that_is_not_there_is_refused_with_a_hint(penstock: Command) -> None:
    assert "quickstart" in sentence(penstock("run", "quikstart"))
    missing = sentence(penstock("run", "missing.toml"))
    assert "there is no scenario file missing.toml; the current folder has no .toml file" in missing
    (penstock.directory / "my-first.toml").touch()
    assert "did you mean my-first.toml?" in sentence(penstock("check", "my-frst.toml"))
    assert "the current folder has my-first.toml" in sentence(penstock("check", "other.toml"))
    assert "there is no readable folder nowhere" in sentence(penstock("check", "nowhere/other.toml"))
    assert "Missing argument" in sentence(penstock("run"))


def test_an_output_that_is_not_there_is_refused_with_the_newest_ones(penstock: Command, small: Path) -> None:
    assert sentence(penstock("report", "nope")).endswith("nope does not exist")
    assert penstock("run", small, "--no-report").status == 0
    assert "nope does not exist; the newest outputs are runs/" in sentence(penstock("report", "nope"))


def test_a_file_that_is_no_text_is_refused(penstock: Command, small: Path) -> None:
    small.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in sentence(penstock("check", small))


def test_an_output_directory_that_exists_is_refused(penstock: Command, small: Path) -> None:
    out = penstock.directory / "there"
    out.mkdir()
    assert f"{out} exists" in sentence(penstock("run", small, "--out", out))
    (out / "notes.txt").write_text("mine")
    assert f"{out} exists" in sentence(penstock("run", small, "--out", out))
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_finished_output_directory_is_refused_and_stays(penstock: Command, small: Path) -> None:
    assert penstock("run", small, "--runs", "1", "--no-report", "--out", "done").status == 0
    before = {path.name: path.stat().st_mtime_ns for path in (penstock.directory / "done").iterdir()}
    assert "done exists and is finished" in sentence(
        penstock("run", small, "--runs", "1", "--no-report", "--out", "done")
    )
    assert {path.name: path.stat().st_mtime_ns for path in (penstock.directory / "done").iterdir()} == before


def test_a_report_of_nothing_is_refused(penstock: Command) -> None:
    assert "does not exist" in sentence(penstock("report", "nowhere"))
    assert "not an output of penstock" in sentence(penstock("report", "."))


def test_a_damaged_manifest_is_refused(penstock: Command) -> None:
    (penstock.directory / "manifest.json").write_text("{")
    assert "is not JSON" in sentence(penstock("report", "."))


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        ((), [], "no JSON object"),
        (("scenario",), [], "scenario is []"),
        (("scenario", "variants"), {}, "scenario.variants is {}"),
        (("scenario", "variants", 0), {"name": "stock"}, "scenario.variants.0.label is missing"),
        (("scenario", "variants", 0, "name"), 3, "scenario.variants.0.name is 3"),
        (("finished",), "yes", "finished is 'yes'"),
        (("version",), None, "version is None"),
        (("asked",), 7, "asked is 7"),
        (("asked", "seeds"), ["1"], "asked.seeds.0 is '1'"),
        (("sweep",), {"params": 1}, "sweep.params is 1"),
        (("runs",), {}, "runs is {}"),
        (("runs",), [{"variant": "stock", "network": "", "seed": "1"}], "runs.0.seed is '1'"),
        (("runs",), [{"variant": "stock", "network": "x", "seed": 1}], "runs.0.network is 'x'"),
    ],
)
def test_a_manifest_of_another_shape_is_refused(
    penstock: Command, keys: tuple[str | int, ...], value: object, said: str
) -> None:
    synthetic.write(penstock.directory / "made")
    path = penstock.directory / "made" / "manifest.json"
    whole = [json.loads(path.read_text())]
    place: Any = whole
    for key, after in itertools.pairwise((0, *keys, None)):
        if after is None:
            place[key] = value
        else:
            place = place[key]
    path.write_text(json.dumps(whole[0]))
    for verb in (["report", "made"], ["compare", "made", "made"]):
        refused = sentence(penstock(*verb))
        assert said in refused
        assert "manifest.json" in refused


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_json_that_is_nested_deeply_is_refused(penstock: Command, text: str) -> None:
    (penstock.directory / "manifest.json").write_text(text)
    assert "manifest.json" in sentence(penstock("report", "."))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": "1"}, "seed is '1'"),
        ({"network": 3}, "network is 3"),
        ({"variant": "other"}, "no variant 'other'"),
    ],
)
def test_a_run_of_another_shape_is_refused(penstock: Command, changes: dict[str, object], said: str) -> None:
    synthetic.write(penstock.directory / "made", finished=False)
    path = next((penstock.directory / "made" / "parts").glob("*/run.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert said in sentence(penstock("report", "made"))


def test_a_linked_folder_of_parts_is_refused(penstock: Command, small: Path) -> None:
    synthetic.write(penstock.directory / "made", finished=False)
    elsewhere = penstock.directory / "elsewhere"
    (penstock.directory / "made" / "parts").rename(elsewhere)
    (penstock.directory / "made" / "parts").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    assert "parts is a symbolic link" in sentence(penstock("report", "made"))
    (penstock.directory / "out").mkdir()
    (penstock.directory / "out" / "parts").symlink_to(elsewhere)
    assert "out exists" in sentence(penstock("run", small, "--out", "out"))
    assert sorted(elsewhere.rglob("*")) == before


def test_escape_sequences_of_a_scenario_reach_no_terminal(penstock: Command, small: Path) -> None:
    text = SMALL.replace("One path", "One \\u001b]0;title\\u0007 path").replace("stock Tor", "stock \\u001b[31mTor")
    small.write_text(text)
    done = penstock("run", small, "--runs", "1", "--no-report", "--out", "done")
    assert done.status == 0, done
    for ended in (done, penstock("check", small), penstock("compare", "done:stock", "done:small")):
        assert not {"\x1b", "\x07"} & {*ended.out, *ended.err}, ended
    small.write_text(text.replace('size = "100 KiB"', 'size = "1 \\u001b[2Jfurlong"'))
    assert "\x1b" not in sentence(penstock("run", small))


def test_a_finished_directory_is_refused_with_a_hint(penstock: Command, small: Path) -> None:
    assert penstock("run", small, "--runs", "1", "--no-report", "--out", "done").status == 0
    assert sentence(penstock("run", small, "--out", "done")).endswith("read it with penstock report done")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".toml", "x/" * 3000])
def test_a_name_that_no_file_can_have_is_refused(penstock: Command, small: Path, name: str) -> None:
    assert "File name too long" in sentence(penstock("check", name))
    assert "File name too long" in sentence(penstock("report", name))
    assert "File name too long" in sentence(penstock("run", small, "--out", name))
    assert not (penstock.directory / "runs").exists()


def test_seeds_end_where_integers_of_toml_do(penstock: Command, small: Path) -> None:
    last = "run.seeds=[9223372036854775807]"
    assert "first seed is 9223372036854775807" in sentence(penstock("run", small, "--set", last, "--runs", "2"))
    assert "--seed is 9223372036854775807" in sentence(penstock("run", small, "--seed", str(2**63 - 1), "--runs", "2"))
    done = penstock("run", small, "--set", last, "--runs", "1", "--variant", "stock", "--no-report")
    assert done.status == 0, done


def test_a_key_that_the_baseline_refuses_names_the_variants_that_take_it(penstock: Command) -> None:
    half_life = ("--set", "relay.circuit_policy.half_life=5 s", "--out", "out")
    refused = sentence(penstock("run", "ewma/bulk-and-small", *half_life))
    assert refused.endswith("; or select variants that take it: --variant all --variant all-list")
    unknown = sentence(penstock("run", "ewma/bulk-and-small", "--set", "relay.circuit_policy.half_lif=5 s"))
    assert "this key is unknown" in unknown
    assert "--variant" not in unknown
