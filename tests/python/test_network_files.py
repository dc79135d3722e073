"""`penstock network`: networks of a consensus, of tornettools' relays and Shadow's graph, and runs in them."""

import base64
import hashlib
import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, sentence
from damage import NASTY, places, put
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import _core, catalog
from penstock.errors import PenstockError
from penstock.networks import file, params

ALL = "Exit Fast Guard Running Stable V2Dir Valid"

SCENARIO = """
[scenario]
title = "a network of somebody's"
[run]
duration = "30 s"
[relays.own]
count = 5
[client]
path = "tor"
[clients.web]
count = 2
workload = "web"
[servers.server]
country = "DE"
[workloads.web]
size = "50 KiB"
"""


def identity(place: int) -> bytes:
    return place.to_bytes(20, "big")


def consensus(relays: list[tuple[str, int]]) -> str:
    entries = [
        f"r relay{place} {base64.b64encode(identity(place)).decode().rstrip('=')} 2030-01-01 00:00:00 "
        f"10.{place % 256}.0.1 9001 0\ns {flags}\nw Bandwidth={weight}\n"
        for place, (flags, weight) in enumerate(relays)
    ]
    return (
        "network-status-version 3 microdesc\nvote-status consensus\nvalid-after 2030-01-01 00:00:00\n"
        f"{''.join(entries)}directory-footer\ndirectory-signature sha256 0 0\n"
    )


def descriptor(place: int, bandwidth: str) -> str:
    return (
        f"router relay{place} 10.0.0.1 9001 0 0\npublished 2030-01-01 00:00:00\n"
        f"fingerprint {identity(place).hex()}\nbandwidth {bandwidth}\nrouter-signature\n"
        "-----BEGIN SIGNATURE-----\nx\n-----END SIGNATURE-----\n"
    )


def staged(**changes: Any) -> dict[str, Any]:
    relay = {
        "fingerprints": ["A" * 40],
        "nicknames": ["some_body"],
        "address": "10.0.0.1",
        "running_frequency": 1.0,
        "guard_frequency": 0.9,
        "exit_frequency": 0.1,
        "weight": 0.25,
        "bandwidth_capacity": 5_000_000,
        "bandwidth_rate": 3_000_000,
        "bandwidth_burst": 4_000_000,
        "country_code": "DE",
    }
    return relay | changes


def staging(relays: dict[str, dict[str, Any]]) -> str:
    return json.dumps({"min_unix_time": 1_700_000_000, "max_unix_time": 1_700_003_600.0, "relays": relays})


STAGED = {
    "A" * 40: staged(),
    "B" * 40: staged(guard_frequency=0.2, exit_frequency=1, country_code="us", bandwidth_rate=0, weight=0.5),
    "C" * 40: staged(running_frequency=0.1),
    "D" * 40: staged(country_code="AQ", exit_frequency=1, nicknames=["???"]),
    "E" * 40: staged(country_code="??", bandwidth_capacity=0),
}

# Two nodes in Germany, one in the United States, one that only forwards. The edge 1-3 is longer than the path over 2.
GRAPH = """graph [
  directed 0
  node [ id 1 country_code "DE" host_bandwidth_down "1 Gbit" ]
  node [ id 2 label "exchange" ]
  node [ id 3 country_code "us" ]
  node [ id 4 geocode "DE" ]
  edge [ source 1 target 2 latency "10 ms" packet_loss 0.0 ]
  edge [ source 2 target 3 latency "40000 us" ]
  edge [ source 1 target 3 latency 60 ]
  edge [ source 4 target 2 latency "0.02" ]
  edge [ source 3 target 3 latency "3 ms" ]
]
"""


def resolved(network: str) -> str:
    """The scenario in that network, with every key; raises if the network is wrong."""
    return _core.Document(SCENARIO, "x.toml", [], (network, "net.toml")).resolved("default")


def table(text: str, name: str) -> dict[str, str]:
    """The keys of one table of a network file."""
    _, there, rest = text.partition(f"[{name}]\n")
    assert there, f"{name} is not in {text}"
    return dict(line.split(" = ", 1) for line in rest.split("\n\n")[0].splitlines() if " = " in line)


def test_a_consensus_gives_relays_with_their_weight_as_link(write: Any) -> None:
    relays = [(ALL, 100), ("Fast Running Valid", 7), ("Running Valid", 9), ("Fast Guard Running Stable Valid", 3)]
    path = write("consensus.xz", lzma.compress(consensus(relays).encode()))
    text = file.make(path)
    assert text.splitlines()[:4] == [
        f"# A network, made by penstock {_core.version()}.",
        "# consensus.xz, microdesc consensus, valid after 2030-01-01 00:00:00 UTC.",
        "# links are consensus weights, and relays have no families: no descriptors were given.",
        "# 1 relay left out: not Fast, Running and Valid, or without weight or rate.",
    ]
    assert re.findall(r"^\[.*\]$", text, re.MULTILINE) == [
        "[relays.relay0-0001]",
        "[relays.relay1-0002]",
        "[relays.relay3-0003]",
    ]
    assert table(text, "relays.relay0-0001") == {
        "link": '"100 kB/s"',
        "weight": '"100 kB/s"',
        "flags": '["guard", "exit"]',
    }
    assert table(text, "relays.relay3-0003")["flags"] == '["guard"]'
    assert resolved(text).count("[relays.") == 3


def test_the_head_names_the_keys_of_consensus_parameters(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = consensus([(ALL, 100), (ALL, 200)])
    line = "params KISTSchedRunInterval=2 cc_vegas_alpha_exit=120 bwauthpid=1 circ_max_cell_queue_size=1250\n"
    before, first, relays = text.partition("\nr ")
    made = file.make(write("consensus", f"{before}\n{line.strip()}{first}{relays}"), relays=5)
    head = made.partition("\n\n")[0]
    for each in (
        '#   KISTSchedRunInterval=2 is scheduler.interval = "2 ms".',
        "#   cc_vegas_alpha_exit=120 is edge_control.alpha = 120.",
        "#   circ_max_cell_queue_size=1250 is max_circuit_queue = 1250.",
    ):
        assert each in head
    assert "bwauthpid" not in made
    said = capsys.readouterr().err
    assert "a network file has no consensus parameters" in said
    assert "--relays 5 is more than the 2 usable relays" in said


def test_every_consensus_parameter_has_an_existing_key() -> None:
    vegas = next(each for each in _core.algorithms() if each["kind"] == "vegas")
    assert set(params.VEGAS.values()) <= {name for name, *_ in vegas["parameters"]}


def test_descriptors_set_the_bandwidth_of_a_relay(write: Any) -> None:
    path = write("consensus", consensus([(ALL, 100), (ALL, 7), (ALL, 1)]))
    one = write("one", descriptor(0, "5000 9000 1234567"))
    other = write("other", "@type server-descriptor 1.0\n" + descriptor(1, "5000 10 0") + descriptor(9, "1 1 1"))
    text = file.make(path, descriptors=[one, other])
    assert table(text, "relays.relay0-0001") == {
        "link": '"1234567 B/s"',
        "bandwidth_rate": '"5 kB/s"',
        "bandwidth_burst": '"9 kB"',
        "weight": '"100 kB/s"',
        "flags": '["guard", "exit"]',
    }
    assert table(text, "relays.relay1-0002")["link"] == '"7 kB/s"', "nothing was observed"
    assert table(text, "relays.relay1-0002")["bandwidth_burst"] == '"5 kB"', "a bucket holds a second"
    assert "bandwidth_rate" not in table(text, "relays.relay2-0003")
    assert "# 1 relay without descriptor" in text
    resolved(text)


def test_descriptors_set_the_family_of_a_relay(write: Any) -> None:
    path = write("consensus", consensus([(ALL, 100), ("Fast", 7), *[(ALL, 50)] * 4]))
    families = {0: "relay4 $" + identity(2).hex(), 1: "relay0", 2: "relay0 relay3", 3: "relay4", 4: "relay0 relay2"}
    texts = [
        descriptor(place, "5 5 5").replace("bandwidth", f"family {family}\nbandwidth")
        for place, family in families.items()
    ]
    text = file.make(path, descriptors=[write("descriptors", "".join(texts))])
    assert table(text, "relays.relay0-0001")["family"] == '["relay2-0002", "relay4-0004"]'
    # Relay 4 declares relay 2, which does not declare relay 4.
    assert table(text, "relays.relay4-0004")["family"] == '["relay0-0001"]'
    assert "family" not in table(text, "relays.relay3-0003")
    assert "# 3 of 5 relays are in a family." in text
    assert "relays have no families: no descriptors were given" in file.make(path)
    resolved(text)


def test_microdescriptors_set_families_only(write: Any) -> None:
    micro = [f"onion-key\nntor-onion-key {place}\nfamily-ids ed25519:x\n" for place in range(2)]
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode().rstrip("=") for each in micro]
    text = consensus([(ALL, 100)] * 3)
    for place, digest in enumerate(digests):
        text = re.sub(rf"(r relay{place} .*\n)", rf"\1m {digest}\n", text)
    path, descriptors = write("consensus", text), write("microdescs", "".join(micro))
    text = file.make(path, descriptors=[descriptors])
    assert table(text, "relays.relay0-0001")["family"] == '["relay1-0002"]'
    assert "# links are consensus weights: no server descriptors were given." in text
    assert "bandwidth_rate" not in text
    assert "without descriptor" not in text


def test_a_sample_keeps_its_families(write: Any) -> None:
    path = write("consensus", consensus([(ALL, place + 1) for place in range(20)]))
    every = " ".join(f"relay{place}" for place in range(20))
    texts = [descriptor(place, "5 5 5").replace("bandwidth", f"family {every}\nbandwidth") for place in range(20)]
    text = file.make(path, descriptors=[write("descriptors", "".join(texts))], relays=4)
    names = re.findall(r"\[relays\.(.*)\]", text)
    assert len(names) == 4
    for name in names:
        others = ", ".join(f'"{other}"' for other in names if other != name)
        assert table(text, f"relays.{name}")["family"] == f"[{others}]"


def test_a_sample_keeps_the_shape_and_a_seed_repeats(write: Any) -> None:
    flags = [ALL if place % 10 == 0 else "Fast Running Valid" for place in range(400)]
    path = write("consensus", consensus([(each, place + 1) for place, each in enumerate(flags)]))
    text = file.make(path, relays=40, seed=3)
    assert text == file.make(path, relays=40, seed=3)
    assert text != file.make(path, relays=40, seed=4)
    assert text.count("[relays.") == 40
    assert text.count('"guard", "exit"') == 4
    assert "# 40 of 400 relays, drawn with seed 3." in text
    weights = [int(each) for each in re.findall(r'weight = "(\d+) kB/s"', text)]
    assert abs(sum(weights) / 40 - 200.5) < 20
    assert file.make(path, relays=500) == file.make(path)


def test_relays_that_tornettools_staged(write: Any) -> None:
    text = file.make(write("relayinfo_staging.json", staging(STAGED)))
    assert "consensuses valid after 2023-11-14 22:13 to 2023-11-14 23:13 UTC." in text
    assert table(text, "relays.some_body-0001") == {
        "link": '"5000 kB/s"',
        "bandwidth_rate": '"3000 kB/s"',
        "bandwidth_burst": '"4000 kB"',
        "weight": '"3750 kB/s"',
        "flags": '["guard"]',
        "country": '"DE"',
    }
    other = table(text, "relays.some_body-0002")
    assert (other["country"], other["flags"], other["weight"]) == ('"US"', '["exit"]', '"7500 kB/s"')
    assert "bandwidth_rate" not in other
    assert "country" not in table(text, "relays.relay-0003"), "a nickname without a letter becomes one with"
    assert text.count("[relays.") == 3
    assert "1 relay left out: running less than half of the time" in text
    assert "without country, since scenarios have no place for AQ." in text
    resolved(text)


def test_a_graph_gives_round_trip_times_by_country_pair(write: Any) -> None:
    text = file.make(None, graph=write("graph.gml.xz", lzma.compress(GRAPH.encode())))
    assert table(text, "network") == {"latency": '"rtt-matrix"', "access": '"1 us"'}
    # 1-4: 30 ms and back. 1-3: 50, 4-3: 60, the median of both and back. 3-3: its own edge.
    assert table(text, "network.rtt_matrix") == {"DE-DE": '"60 ms"', "DE-US": '"110 ms"', "US-US": '"6 ms"'}
    assert "relays" not in text
    both = SCENARIO.replace('[servers.server]\ncountry = "DE"', '[servers.server]\ncountry = "US"')
    described = _core.Document(both, "x.toml", [], (text, "net.toml")).describe()
    assert "by country pair, from network.rtt_matrix" in described


def test_the_paths_of_a_complete_graph_are_its_edges_in_both_directions(write: Any) -> None:
    nodes = 'node [ id 1 country_code "DE" ] node [ id 2 country_code "US" ]'

    def edge(one: int, other: int, latency: str) -> str:
        return f'edge [ source {one} target {other} latency "{latency}" ]'

    loops = edge(1, 1, "1 ms") + edge(2, 2, "2 ms")
    text = file.make(None, graph=write("a", f"graph [ {nodes} {loops} {edge(1, 2, '5 ms')} ]"))
    assert "medians of the edges between" in text
    assert table(text, "network.rtt_matrix") == {"DE-DE": '"2 ms"', "DE-US": '"10 ms"', "US-US": '"4 ms"'}
    both = edge(1, 2, "5 ms") + edge(2, 1, "7 ms")
    text = file.make(None, graph=write("b", f"graph [ directed 1 {nodes} {loops} {both} ]"))
    assert table(text, "network.rtt_matrix")["DE-US"] == '"12 ms"'
    alone = write("c", f"graph [ directed 1 {nodes} {loops} {edge(1, 2, '5 ms')} ]")
    with pytest.raises(
        PenstockError, match=r"there is no path from node 1 to node 2 and back; a graph must be connected"
    ):
        file.make(None, graph=alone)


def test_relays_and_round_trip_times_go_into_one_file(write: Any) -> None:
    data = staging({name: relay for name, relay in STAGED.items() if name[0] in "AB"})
    text = file.make(write("staging", data), graph=write("graph", GRAPH))
    assert re.findall(r"^\[.*\]$", text, re.MULTILINE)[:3] == [
        "[network]",
        "[network.rtt_matrix]",
        "[relays.some_body-0001]",
    ]
    scenario = SCENARIO.replace("[client]", '[client]\npath = ["some_body-0001"]\nhops = 1', 1).replace(
        'path = "tor"\n', "", 1
    )
    _core.Document(scenario, "x.toml", [], (text, "net.toml"))


def broken_staging() -> list[tuple[str, str]]:
    """The error for each damaged list of staged relays."""
    whole = staging(STAGED)

    def of(**changes: Any) -> str:
        return staging({"A" * 40: staged(**changes)})

    twice = whole.replace("B" * 40, "A" * 40)
    without = staged()
    del without["weight"]
    return [
        (f":1: {'A' * 40} is there twice", twice),
        (":1: this is not JSON", whole[:200]),
        (":3: this is not JSON", '{\n"relays":\n nothing}'),
        (":1: relays: it is missing; it must be an object", "{}"),
        (": relays: none was running half of the time", staging({})),
        (f": relays.{'A' * 40}: 5 is there; it must be an object", staging({"A" * 40: 5})),  # type: ignore[dict-item]
        (f": relays.{'A' * 40}.weight: it is missing; it must be a number from 0 to 1", staging({"A" * 40: without})),
        (
            f":6: relays.{'A' * 40}.weight: -1 is there",
            f'{{\n"relays": {{\n"{"A" * 40}": {{\n"running_frequency": 1,\n\n"weight": -1}}}}}}',
        ),
        (":4: Infinity is not a number in JSON", '{\n"relays": {\n"A": {\n"weight": Infinity}}}'),
        (".weight: 1e+30 is there", of(weight=1e30)),
        (": NaN is not a number in JSON", of(weight=float("nan"))),
        (".bandwidth_capacity: true is there", of(bandwidth_capacity=True)),
        (
            ".bandwidth_rate: 1099511627777 is there; it must be a number from 0 to 1099511627776",
            of(bandwidth_rate=2**40 + 1),
        ),
        ('.country_code: "DEU" is there; it must have two letters', of(country_code="DEU")),
        (".nicknames: [] is there", of(nicknames=[])),
        (": this is not JSON that can be read", '{"relays":' + "[" * 100_000),
    ]


@pytest.mark.parametrize(("said", "text"), broken_staging())
def test_broken_staged_relays_are_refused(write: Any, said: str, text: str) -> None:
    refused(write("staging", text), None, said)


@pytest.mark.parametrize(
    ("said", "old", "new"),
    [
        (":7: edge 1-2: the latency is missing; it must be a duration", ' latency "10 ms"', ""),
        (":7: edge 1-2: the latency is '-10 ms'; it must be from 0 to 1000 s", "10 ms", "-10 ms"),
        (":7: edge 1-2: the latency is '10 miles'; it must be a duration, like", "10 ms", "10 miles"),
        (":9: edge 1-3: the latency is '-5'; it must be from 0", "latency 60", "latency -5"),
        (":3: node 1: the country_code is 'DEU'; it must have two letters", 'country_code "DE"', 'country_code "DEU"'),
        (":3: node 1: the country_code is 49; it must", 'country_code "DE"', "country_code 49"),
        (": there is no path from node 1 to node 4", '  edge [ source 4 target 2 latency "0.02" ]\n', ""),
        (":7: this is not a graph in GML: edge #0 has undefined", "target 2 ", "target 9 "),
        (":3: this is not a graph in GML: node #0 has no 'id'", "id 1 ", ""),
        (":4: this is not a graph in GML: node id 1 is duplicated", "id 2 ", "id 1 "),
        (": this is not a graph in GML", "source 1 target 2", "source 1"),
        (":12: this is not a graph in GML", "\n]\n", "\n"),
        (":3: this is not a graph in GML: cannot tokenize", "  node [ id 1", "  node ? id 1"),
        (":4: this is not a graph in GML: input is not ASCII-encoded", "exchange", "Börse"),
        (": this is not a graph in GML: it is nested too deeply", GRAPH, "graph [" * 3000),
        (": it has no node", GRAPH, "graph [ ]"),
        (": it has no edge", GRAPH, 'graph [ node [ id 1 country_code "DE" ] ]'),
        (": no node has a country_code", GRAPH, 'graph [ node [ id 1 country_code "AQ" ] ]'),
    ],
)
def test_a_broken_graph_is_refused(write: Any, said: str, old: str, new: str) -> None:
    assert old in GRAPH
    refused(None, write("graph", GRAPH.replace(old, new, 1)), said)


def refused(path: Path | None, graph: Path | None, said: str) -> None:
    with pytest.raises(PenstockError) as error:
        file.make(path, graph=graph)
    assert str(error.value).startswith(str(path or graph))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def damaged(text: str) -> st.SearchStrategy[bytes]:
    """The text with a piece of it cut, repeated or replaced."""
    whole = text.encode()
    words = re.findall(rb"[\w.\"-]+", whole)
    places = st.integers(0, len(whole))
    pieces = st.one_of(
        st.binary(max_size=4), st.sampled_from(words), st.sampled_from([b"-1", b"1e999", b"9" * 30, b"NaN"])
    )
    return st.builds(lambda at, cut, piece: whole[:at] + piece + whole[at + cut :], places, st.integers(0, 60), pieces)


def network_or_sentence(path: Path, kind: str, tmp_path: Path) -> None:
    """A network that scenarios take, or one sentence that names the file."""
    whole = tmp_path / "whole"
    whole.write_text(consensus([(ALL, 5), (ALL, 6), (ALL, 7)]))
    try:
        if kind == "relays":
            text = file.make(path, relays=3)
        elif kind == "descriptors":
            text = file.make(whole, descriptors=[path])
        else:
            text = file.make(None, graph=path)
    except PenstockError as error:
        said = str(error)
        assert said.startswith((str(path), str(whole)))
        assert said.isprintable()
        assert len(said) < 400 + len(str(path))
        return
    assert "\n[" in text
    try:
        resolved(text)
    except PenstockError as error:
        # Fewer relays than a path needs, or countries, is all that may be wrong with it.
        assert 'no path "tor" can be drawn' in str(error) or "network.rtt_matrix: n" in str(error)  # noqa: PT017


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.tuples(st.just("relays"), damaged(staging(STAGED))),
        st.tuples(st.just("relays"), damaged(consensus([(ALL, 5), (ALL, 6), ("Fast Running Valid", 3), (ALL, 2)]))),
        st.tuples(st.just("descriptors"), damaged(descriptor(0, "5000 9000 70") + descriptor(1, "5 9 0"))),
        st.tuples(st.just("graph"), damaged(GRAPH)),
    )
)
def test_a_damaged_file_gives_a_network_or_one_sentence(tmp_path: Path, what: tuple[str, bytes]) -> None:
    kind, data = what
    path = tmp_path / "damaged"
    path.write_bytes(data)
    network_or_sentence(path, kind, tmp_path)


@pytest.mark.parametrize("value", [*NASTY, ...], ids=lambda value: repr(value)[:12])
def test_each_value_of_staged_relays_is_replaced_by_a_wrong_one(tmp_path: Path, value: Any) -> None:
    whole = staging(STAGED)
    path = tmp_path / "staging"
    for place in range(len(list(places(json.loads(whole))))):
        document = json.loads(whole)
        _, inside, key = list(places(document))[place]
        put(inside, key, value)
        path.write_text(json.dumps(document))
        network_or_sentence(path, "relays", tmp_path)


DIGITS = "9" * 400


@pytest.mark.parametrize(
    "value",
    ["[ ]", "[ a 1 ]", '""', '"x"', "-1", "0", "1.5", "1.5E300", DIGITS, DIGITS * 12, f'"{DIGITS}"', "+INF", ""],
    ids=lambda value: value[:12],
)
def test_each_value_of_a_graph_is_replaced_by_a_wrong_one(tmp_path: Path, value: str) -> None:
    path = tmp_path / "graph"
    for found in re.finditer(r'(?<=\w )("[^"]*"|[\w.]+)', GRAPH):
        path.write_text(GRAPH[: found.start()] + value + GRAPH[found.end() :])
        network_or_sentence(path, "graph", tmp_path)


@pytest.mark.parametrize("after", ["", "\n\n", "\n\n]\n"], ids=["nothing", "blank line", "closed"])
def test_a_graph_that_is_cut_anywhere(tmp_path: Path, after: str) -> None:
    path = tmp_path / "graph"
    for end in range(len(GRAPH)):
        path.write_text(GRAPH[:end] + after)
        network_or_sentence(path, "graph", tmp_path)


def test_a_run_in_a_network_names_it_and_can_be_repeated(penstock: Command, write: Any, tmp_path: Path) -> None:
    scenario = write("x.toml", SCENARIO)
    source = write("consensus", consensus([(ALL, 100), (ALL, 200), (ALL, 300), (ALL, 400)]))
    net = tmp_path / "net.toml"
    done = penstock("network", source, "--out", net)
    assert done.status == 0, done
    assert f"{net}, 4 relays" in done.out
    assert penstock("network", source).out == net.read_text()
    done = penstock("check", scenario, "--network", net)
    assert f"x.toml in the network of {net}" in done.out
    assert "relay0-0001" in done.out
    out = tmp_path / "out"
    done = penstock("run", scenario, "--network", net, "--out", out, "--no-report")
    assert done.status == 0, done
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["asked"]["network"] == str(net)
    assert "[relays.relay3-0004]" in manifest["scenario"]["variants"][0]["resolved"]
    import penstock as library

    result = library.load(out)
    assert f"--network {net}" in result.command
    assert set(result.relays["relay"].unique()) == {f"relay{place}-000{place + 1}" for place in range(4)}
    other = library.sweep(scenario, ["run.duration=10 s,20 s"], network=net, out=tmp_path / "sweep")
    assert f"--network {net}" in other.command
    _, document = catalog.load(scenario, (), net)
    assert manifest["scenario"]["fingerprint"] == document.fingerprint()
    assert document.fingerprint() != catalog.load(scenario)[1].fingerprint()


def test_mistakes_on_the_command_line_are_one_sentence(penstock: Command, write: Any) -> None:
    scenario, source = write("x.toml", SCENARIO), write("consensus", consensus([(ALL, 100)]))
    assert "no input is given" in sentence(penstock("network"))
    assert "need a FILE with relays" in sentence(penstock("network", "--graph", "graph", "--relays", "5"))
    assert "there-is-none: No such file" in sentence(penstock("network", "there-is-none"))
    assert "leave --descriptors out" in sentence(
        penstock("network", write("staging", staging(STAGED)), "--descriptors", source)
    )
    assert ":1: it begins with" in sentence(penstock("network", source, "--descriptors", source))
    assert "there-is-none: No such file" in sentence(penstock("check", scenario, "--network", "there-is-none"))
    assert f"{scenario}:9: client.path: this key belongs in a scenario" in sentence(
        penstock("check", scenario, "--network", scenario)
    )


def test_the_eras_are_listed(penstock: Command) -> None:
    lines = penstock("list", "networks").out.splitlines()
    assert [line.split()[2] for line in lines] == ["2012-04", "2012", "2013", "2014", "2017", "2018", "2022"]
    assert re.search(r"era = 2014 +499 relays: mean link 0\.8 MiB/s, mean capacity .* 0\.6 MiB/s$", lines[3])
