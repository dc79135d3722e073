"""A scenario from Python values equals the one from TOML text."""

import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import SMALL

import penstock
from penstock import Scenario, catalog
from penstock.errors import ScenarioError


def small() -> Scenario:
    return (
        Scenario("One path, for tests")
        .section("run", seeds=[1, 2], duration="30 s")
        .section("trace", workloads=["web"], interval="100 ms", cells=10)
        .relay("entry")
        .relay("middle", link="256 KiB/s")
        .relay("exit")
        .server("destination")
        .workload("web", size="100 KiB", pause="uniform(1 s, 2 s)")
        .client("web", workload="web", path=["entry", "middle", "exit"])
        .variant("stock", label="stock Tor")
        .variant("small", {"relay.edge_control.circuit_window": 100}, label="50 KiB windows")
    )


def test_a_built_scenario_equals_its_file(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text(SMALL)
    built = small().save(tmp_path / "built.toml")
    assert catalog.load(built)[1].fingerprint() == catalog.load(file)[1].fingerprint()
    assert penstock.run(built, runs=1, out=tmp_path / "out").finished


def test_every_kind_of_value_has_its_form_in_toml(tmp_path: Path) -> None:
    scenario = small().section("relay", scheduler={"kind": "kist", "interval": "2 ms"}, refill_unblock="none")
    scenario.section("relay", authenticated_sendmes=True, edge_control__stream_window=200)
    scenario.section("network", loss=0.25)
    _, document = catalog.load(scenario.save(tmp_path / "built.toml"))
    resolved = document.resolved("stock")
    for line in ('kind = "kist"', "authenticated_sendmes = true", "stream_window = 200", "loss = 0.25"):
        assert line in resolved
    quoted = Scenario('A "quoted" title\nwith ümlauts and a \\').toml()
    assert 'title = "A \\"quoted\\" title\\nwith ümlauts and a \\\\"' in quoted


@pytest.mark.parametrize("title", ["x \U0001f600", "delete \x7f", 'tab\t, quote " and backslash \\'])
def test_every_character_reaches_the_scenario(tmp_path: Path, title: str) -> None:
    assert tomllib.loads(Scenario(title).toml())["scenario"]["title"] == title
    scenario = small().variant("other", label=title)
    labels = dict(catalog.load(scenario.save(tmp_path / "built.toml"))[1].variants())
    assert labels["other"] == title


def test_a_mistake_is_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "built.toml"
    with pytest.raises(ScenarioError, match=r"relays\.middle\.lnk: this key is unknown; did you mean link\?"):
        small().relay("middle", lnk="1 MiB/s").save(path)
    with pytest.raises(ScenarioError, match=r"the scenario has '\\ud83d', half of a character"):
        small().variant("half", label="\ud83d").save(path)
    with pytest.raises(ScenarioError, match=r"duration is .*, a timedelta; it must be a string"):
        small().section("run", duration=timedelta(seconds=3)).save(path)  # type: ignore[arg-type]
    assert not path.exists()
