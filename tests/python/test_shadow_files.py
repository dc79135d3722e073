"""`penstock network` with the files of published experiments: Shadow's topologies and hosts, and nstor's circuits."""

import json
import lzma
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, sentence

from penstock import _core
from penstock.errors import PenstockError
from penstock.networks import file, internet

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="packetloss" attr.type="double" for="edge" id="d9" />
  <key attr.name="jitter" attr.type="double" for="edge" id="d8" />
  <key attr.name="latency" attr.type="double" for="edge" id="d7" />
  <key attr.name="bandwidthup" attr.type="int" for="node" id="d4" />
  <key attr.name="bandwidthdown" attr.type="int" for="node" id="d3" />
  <key attr.name="geocode" attr.type="string" for="node" id="d2" />
  <key attr.name="packetloss" attr.type="double" for="node" id="d0" />
  <graph edgedefault="undirected">
    <node id="poi-1">
      <data key="d0">0.5</data><data key="d2">DE</data><data key="d3">1000</data><data key="d4">200</data>
    </node>
    <node id="poi-2">
      <data key="d0">0.2</data><data key="d2">US</data><data key="d3">5000</data><data key="d4">900</data>
    </node>
    <node id="poi-3">
      <data key="d0">0.0</data><data key="d2">LA</data><data key="d3">10</data><data key="d4">10</data>
    </node>
    <edge source="poi-1" target="poi-1"><data key="d7">3.5</data><data key="d8">1</data></edge>
    <edge source="poi-1" target="poi-2"><data key="d7">50.25</data><data key="d9">0.1</data></edge>
    <edge source="poi-2" target="poi-2"><data key="d7">7</data></edge>
    <edge source="poi-1" target="poi-3"><data key="d7">90</data></edge>
    <edge source="poi-2" target="poi-3"><data key="d7">95</data></edge>
    <edge source="poi-3" target="poi-3"><data key="d7">9</data></edge>
  </graph>
</graphml>
"""

CONFIG = """<shadow>
  <kill time="3600"/>
  <topology path="~/.shadow/share/topology.graphml.xml"/>
  <plugin id="scallion" path="x.so"/>
  <node id="server1" iphint="1.2.3.4" geocodehint="US" typehint="server" bandwidthup="102400" bandwidthdown="102400">
    <application plugin="filetransfer" starttime="1" arguments="server 80 ~/.shadow/share"/>
  </node>
  <node id="4uthority1" geocodehint="US" bandwidthdown="1604" bandwidthup="1604" quantity="1">
    <application plugin="scallion" arguments="dirauth 20 --BandwidthRate 512000 --BandwidthBurst 1024000"/>
  </node>
  <node id="relayguard1" geocodehint="DE" bandwidthdown="1718" bandwidthup="1317">
    <application plugin="scallion" arguments="relay 1310 --BandwidthRate 921600 --BandwidthBurst 8388608"/>
  </node>
  <node id="relayexit1" geocodehint="US" bandwidthdown="208" bandwidthup="208">
    <application plugin="scallion" arguments="exitrelay 27 --BandwidthRate 102400 --BandwidthBurst 204800"/>
  </node>
  <node id="relaymiddle1" geocodehint="DE" quantity="2">
    <application plugin="scallion" arguments="relay 41 -f ./middle.torrc"/>
  </node>
  <node id="webclient1" geocodehint="DE" typehint="client">
    <application plugin="scallion" starttime="900" arguments="client 10240 -f ./client.torrc"/>
    <application plugin="filetransfer" starttime="1200" arguments="client multi ./web.dl localhost 9000"/>
  </node>
  <node id="webclient2" geocodehint="US" quantity="3">
    <application plugin="scallion" starttime="900" arguments="client 10240 -f ./client.torrc"/>
  </node>
  <node id="perfclient50k7" geocodehint="EU">
    <application plugin="scallion" starttime="900" arguments="client 10240 -f ./torperf.torrc"/>
  </node>
</shadow>
"""

TOPOLOGY = """<topology>
  <cluster id="USCA" bandwidthdown="6896" bandwidthup="1686" packetloss="0.023"/>
  <cluster id="DEDE" bandwidthdown="20777" bandwidthup="12359" packetloss="0.02"/>
  <link id="link1" clusters="USCA USCA" latency="4" jitter="0"/>
  <link id="link2" clusters="USCA DEDE" latency="77" jitter="40"/>
  <link id="link3" clusters="DEDE USCA" latency="78" jitter="90" packetloss="0.25"/>
  <link id="link4" clusters="DEDE DEDE" latency="5" jitter="1"/>
</topology>
"""

HOSTS = """<hosts>
  <kill time="3600"/>
  <software id="filesoft" plugin="filetransfer" time="1" arguments="server 80 ~/.shadow/share"/>
  <node id="server1" ip="46.28.209.20" cluster="DEDE" software="filesoft" bandwidthup="102400" bandwidthdown="102400"/>
  <software id="exit1soft" plugin="scallion" time="64" arguments="exitrelay 4000 5242880 10485760 ./exit.torrc ./data"/>
  <node id="exit1" ip="1.1.1.1" cluster="USCA" software="exit1soft" bandwidthdown="81" bandwidthup="78"/>
  <software id="n1soft" plugin="scallion" time="64" arguments="relay 80000 204800 409600 ./relay.torrc ./data"/>
  <node id="nonexit1" cluster="DEDE" software="n1soft" bandwidthdown="235" bandwidthup="235"/>
  <software id="n2soft" plugin="scallion" time="64" arguments="relay 900 20480 40960 ./relay.torrc ./data"/>
  <node id="nonexit2" cluster="DEDE" software="n2soft" bandwidthdown="30" bandwidthup="30"/>
  <software id="c1soft" plugin="scallion" arguments="client 10240000 5120000 10240000 client multi ./web.dl"/>
  <node id="bulkclient1" cluster="USCA" software="c1soft"/>
</hosts>
"""

NSTOR = "\n".join(
    f"{number}\t{'ABC'[number] * 40} EU 3602546\t{'D' * 40} NA 1536000\t{'E' * 40} EU 3584000" for number in range(3)
)

SCENARIO = """
[scenario]
title = "a network of the authors"
[run]
duration = "20 s"
[client]
path = "tor"
[relays.own]
count = 4
[clients.web]
count = 8
workload = "web"
[servers.server]
[workloads.web]
size = "20 KiB"
pause = "1 s"
"""


def parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def test_graphml_and_hosts_become_places_relays_and_clients(write: Any) -> None:
    graph = write("topology.graphml.xml.xz", lzma.compress(GRAPHML.encode()))
    text = file.make(write("shadow.config.xml", CONFIG), graph=graph)
    assert text.splitlines()[1:7] == [
        "# topology.graphml.xml.xz, 3 places with the delays of its edges.",
        "# shadow.config.xml, 5 relays, with the links, token buckets and weights of its hosts.",
        "# authorities, neither guards nor exits: 1.",
        "# hosts at random places, since the graph does not have theirs (EU): 1.",
        *text.splitlines()[5:7],
    ]
    found = parsed(text)
    network = found["network"]
    assert (network["latency"], network["loss_of"]) == ("places", "data")
    assert {**network["places"]["DE"], "weight": 0} == {
        "country": "DE",
        "link_down": "1000 KiB/s",
        "link_up": "200 KiB/s",
        "loss": 0.5,
        "weight": 0,
    }
    order = network["edges"]["order"]
    german, american = order.index("DE"), order.index("US")
    row = network["edges"]["latency"][german].split()
    assert (row[german], row[american], row[-1]) == ("3.5", "50.25", "ms")
    assert network["edges"]["loss"][american].split()[german] == "0.1"
    assert "jitter" not in network["edges"], "Shadow 1.9 does not use it"
    relays = found["relays"]
    assert set(relays) == {"4uthority1", "relayguard1", "relayexit1", "relaymiddle11", "relaymiddle12"}
    assert relays["relayguard1"] == {
        "link_down": "1718 KiB/s",
        "link_up": "1317 KiB/s",
        "bandwidth_rate": "900 KiB/s",
        "bandwidth_burst": "8 MiB" if "8 MiB" in text else "8192 KiB",
        "weight": "1310 kB/s",
        "flags": ["guard"],
        "place": "DE",
    }
    assert relays["relayexit1"]["flags"] == ["exit"]
    assert relays["4uthority1"]["flags"] == []
    assert relays["relaymiddle12"] == {"link": "place", "weight": "41 kB/s", "flags": [], "place": "DE"}
    assert found["clients"]["web"] == {"link": "place", "place": {"DE": 1, "US": 3}}
    assert set(found["clients"]) == {"web", "perf50k"}
    assert found["servers"]["server"] == {"link_down": "102400 KiB/s", "link_up": "102400 KiB/s", "place": "US"}


def test_hosts_of_a_country_are_at_all_of_its_places(write: Any) -> None:
    graph = write("g", GRAPHML.replace(">LA<", ">US<"))
    hosts = write("h", CONFIG.replace('quantity="3"', 'quantity="100"'))
    first, again, other = (
        parsed(file.make(hosts, graph=graph, seed=seed))["clients"]["web"]["place"] for seed in (1, 1, 2)
    )
    counts = [count for place, count in first.items() if place != "DE"]
    assert len(counts) == 2
    assert sum(counts) == 100
    assert min(counts) > 30
    assert first == again != other


def test_a_scenario_runs_in_the_network_of_the_files(penstock: Command, tmp_path: Path, write: Any) -> None:
    hosts, graph = write("shadow.config.xml", CONFIG), write("topology.graphml.xml", GRAPHML.replace("0.5<", "0.01<"))
    scenario, out = write("x.toml", SCENARIO), tmp_path / "net.toml"
    made = penstock("network", str(hosts), "--graph", str(graph), "--out", str(out))
    assert made.status == 0, made.err
    assert made.out.startswith(f"network: {out}, 5 relays;")
    ran = penstock("run", str(scenario), "--network", str(out), "--out", str(tmp_path / "run"), "--no-report")
    assert ran.status == 0, ran.err
    assert "clients.perf50k: the scenario has no such nodes" in ran.err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["scenario"]["places"] == {"kind": "exact", "source": str(out)}
    checked = penstock("check", str(scenario), "--network", str(out))
    assert "3 places of network.places" in checked.out or "2 places of network.places" in checked.out
    generated = _core.Document(
        SCENARIO.replace("[client]", "[network]\nlatency = 'places'\nplaces = 'shadow-2014'\n[client]"), "x.toml"
    )
    assert generated.places() == (True, "shadow-2014")
    assert _core.Document(SCENARIO, "x.toml").places() is None


def test_the_topology_of_shadow_1_5_keeps_directions_and_jitter(write: Any) -> None:
    graph = write("topology.xml", TOPOLOGY)
    text = file.make(write("hosts.xml", HOSTS), graph=graph)
    found = parsed(text)
    assert found["network"]["loss_of"] == "all"
    edges = found["network"]["edges"]
    here, there = edges["order"].index("USCA"), edges["order"].index("DEDE")
    assert edges["latency"][here].split()[there] == "77"
    assert edges["latency"][there].split()[here] == "78"
    assert edges["jitter"][there].split()[here] == "77", "a delay of 1 ms remains"
    assert edges["loss"][there].split()[here] == "0.25"
    assert edges["loss"][here].split()[there] == "0"
    relays = found["relays"]
    assert relays["exit1"] == {
        "link_down": "81 KiB/s",
        "link_up": "78 KiB/s",
        "bandwidth_rate": "5 MiB/s" if "5 MiB/s" in text else "5120 KiB/s",
        "bandwidth_burst": "10 MiB" if '"10 MiB"' in text else "10240 KiB",
        "weight": "4000 kB/s",
        "flags": ["guard", "exit"],
        "place": "USCA",
    }
    assert [relays[name]["flags"] for name in ("nonexit1", "nonexit2")] == [["guard"], []]
    assert found["clients"]["bulk"] == {"link": "place", "place": "USCA"}
    other = HOSTS.replace('id="bulkclient1" cluster="USCA"', 'id="webclient1" cluster="DEDE"')
    text = file.make(write("hosts.xml", HOSTS), graph=graph, clients=write("more.xml", other))
    assert parsed(text)["clients"] == {"web": {"link": "place", "place": "DEDE"}}
    assert len(parsed(text)["relays"]) == 3


def test_the_loss_of_an_incomplete_graph_is_that_of_its_shortest_paths(write: Any) -> None:
    graph = """graph [
  directed 0
  node [ id 7 host_bandwidth_down "8 Mbit" host_bandwidth_up "800 Kbit" ]
  node [ id 8 ]
  node [ id 9 ]
  edge [ source 7 target 8 latency "10 ms" packet_loss 0.1 jitter "3 ms" ]
  edge [ source 8 target 9 latency "20 ms" packet_loss 0.2 ]
  edge [ source 7 target 9 latency "90 ms" packet_loss 0.0 ]
  edge [ source 9 target 9 latency "2 ms" packet_loss 0.3 ]
]
"""
    found = parsed(file.make(None, graph=write("graph.gml", graph)))["network"]
    rows = {key: [row.removesuffix(" ms").split() for row in found["edges"][key]] for key in ("latency", "loss")}
    assert found["edges"]["order"] == ["node-7", "node-8", "node-9"]
    assert rows["latency"] == [["1", "10", "30"], ["10", "1", "20"], ["30", "20", "2"]]
    assert [float(loss) for loss in rows["loss"][0]] == [0, 0.1, 0.28]
    assert float(rows["loss"][2][2]) == 0.3
    assert found["places"]["node-7"] == {"link_down": "1000000 B/s", "link_up": "100000 B/s", "loss": 0.0}
    countries = graph.replace("id 7", 'id 7 country_code "DE"').replace("id 9", 'id 9 country_code "US"')
    path = write("countries.gml", countries)
    assert "rtt_matrix" in file.make(None, graph=path)
    assert parsed(file.make(None, graph=path, places=True))["network"]["places"]["node-7"]["country"] == "DE"


def test_nstors_circuits_become_relays_and_circuits(penstock: Command, tmp_path: Path, write: Any) -> None:
    text = file.make(None, circuits=write("circuits.dat", NSTOR))
    found = parsed(text)
    assert found["network"]["circuits"] == [f"r{letter * 8} rDDDDDDDD rEEEEEEEE" for letter in "ABC"]
    assert found["relays"]["rDDDDDDDD"] == {
        "bandwidth_rate": "1536 kB/s",
        "bandwidth_burst": "1536 kB",
        "weight": "1536 kB/s",
        "flags": ["guard", "exit"],
    }
    out, scenario = tmp_path / "net.toml", write("x.toml", SCENARIO.replace('"tor"', '"circuits"').replace("8", "3"))
    out.write_text(text)
    ran = penstock("run", str(scenario), "--network", str(out), "--out", str(tmp_path / "run"), "--no-report")
    assert ran.status == 0, ran.err
    import polars as pl

    paths = pl.read_parquet(tmp_path / "run" / "paths.parquet")
    assert dict(paths.select("client", "guard").iter_rows()) == {
        f"web000{number}": f"r{letter * 8}" for number, letter in zip((1, 2, 3), "ABC", strict=True)
    }


def test_a_list_of_names_gives_circuits_over_the_relays_of_a_file(write: Any) -> None:
    graph, hosts = write("topology.xml", TOPOLOGY), write("hosts.xml", HOSTS)
    circuits = write("circuits.txt", "# three\nnonexit1 nonexit2 exit1\n\nnonexit2 nonexit1 exit1\n")
    network = parsed(file.make(hosts, graph=graph, circuits=circuits))["network"]
    assert network["circuits"] == ["nonexit1 nonexit2 exit1", "nonexit2 nonexit1 exit1"]
    assert network["latency"] == "places"
    wrong = write("wrong.txt", "nonexit1 exit2\n")
    with pytest.raises(PenstockError, match=re.escape("circuit 1: there is no relay 'exit2' in FILE")):
        file.make(hosts, graph=graph, circuits=wrong)


BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><shadow>&b;</shadow>'

WRONG = [
    (
        CONFIG,
        GRAPHML.replace('source="poi-1" target="poi-3"', 'source="poi-1" target="poi-4"'),
        "g:23: there is no node 'poi-4'",
    ),
    (CONFIG, GRAPHML.replace(">50.25<", ">soon<"), "g:21: the latency is 'soon'; it must be a number from 0 to 1e+06"),
    (CONFIG, GRAPHML.replace(">0.5<", ">1.5<"), "g:11: the packetloss is '1.5'; it must be a number from 0 to 1"),
    (CONFIG, GRAPHML.replace('id="poi-2"', 'id="poi-1"'), "g:14: the id 'poi-1' is there twice"),
    (CONFIG, GRAPHML.replace("</graphml>", ""), "this is not XML: no element found"),
    (CONFIG, BOMB, "g:1: it declares an entity; remove the declaration, since Shadow's files have none"),
    (BOMB, GRAPHML, "h:1: it declares an entity"),
    (CONFIG, HOSTS, "this is not a graph of Shadow: it begins with <hosts>"),
    (TOPOLOGY, GRAPHML, "these are not hosts of Shadow: it begins with <topology>"),
    (
        CONFIG.replace("relay 1310", "relay many"),
        GRAPHML,
        "h:11: the weight of relayguard1 is 'many'; it must be a whole number",
    ),
    (
        CONFIG.replace('quantity="2"', 'quantity="-2"'),
        GRAPHML,
        "h:17: the quantity is '-2'; it must be a whole",
    ),
    (HOSTS.replace('software="c1soft"', 'software="c2soft"'), TOPOLOGY, "there is no software 'c2soft'"),
    (HOSTS, TOPOLOGY.replace("USCA DEDE", "USCA FRFR"), "g:5: there is no cluster 'FRFR'"),
    ("<shadow></shadow>", GRAPHML, "there is no <node>"),
    ('<?xml version="1.0" encoding="gbk"?>' + CONFIG, GRAPHML, "h: this is not XML in a known encoding"),
    (CONFIG.replace('quantity="2"', f'quantity="{"9" * 5000}"'), GRAPHML, "h:17: the quantity is '99"),
    (
        CONFIG.replace('<node id="webclient1"', '<node id="webclient1" bandwidthdown="50"'),
        GRAPHML,
        "some hosts of the group web have a bandwidthdown and others do not; give each of them a bandwidthdown",
    ),
    (
        CONFIG,
        re.sub('<data key="d[34]">[0-9]+</data>', "", GRAPHML),
        "are at DE, US, and the graph has none there either; give these hosts or these nodes a bandwidthdown",
    ),
    (
        '<shadow><node id="a" geocodehint="DE"><application plugin="x" arguments="idle"/></node></shadow>',
        GRAPHML,
        "of the plug-ins scallion and filetransfer; give it hosts with arguments such as",
    ),
]


@pytest.mark.parametrize(("hosts", "graph", "said"), WRONG)
def test_a_wrong_file_is_refused_with_its_line(hosts: str, graph: str, said: str, tmp_path: Path, write: Any) -> None:
    with pytest.raises(PenstockError) as raised:
        file.make(write("h", hosts), graph=write("g", graph))
    assert said in str(raised.value).replace(f"{tmp_path}/", "")
    assert "\n" not in str(raised.value)


def test_a_large_graph_is_refused_before_its_matrices_are_made(write: Any) -> None:
    nodes = [f"node [ id {number} ]" for number in range(5000)]
    with pytest.raises(PenstockError, match="g: it has 5000 nodes; it must have at most 4096; give a smaller graph"):
        file.make(None, graph=write("g", "\n".join(["graph [", *nodes, "edge [ source 0 target 1 latency 1 ]", "]"])))
    many = [internet.Place(f"p{number}", "", None, None, 0.0) for number in range(1_000_000)]
    with pytest.raises(PenstockError, match="1000000 nodes"):
        internet.join(many, {}, Path("g"), spares_acks=True)
    none = np.zeros((1, 1))
    some = internet.Internet(many[:3000], none, none, none, spares_acks=True, notes=[])
    with pytest.raises(PenstockError, match=r"3000 nodes of the graph are places; .* at most 2048 places; give"):
        some.toml(None)


def test_places_of_unknown_countries_are_noted(write: Any) -> None:
    hosts = CONFIG.replace('geocodehint="EU"', 'geocodehint="A1"')
    text = file.make(write("h", hosts), graph=write("g", GRAPHML.replace(">LA<", ">A1<")))
    assert "# places without country, since scenarios do not know A1: 1." in text.splitlines()
    places = parsed(text)["network"]["places"]
    assert "country" not in places["A1"]
    assert places["DE"]["country"] == "DE"


def test_countries_of_older_graphs_in_gml_are_kept_and_checked(write: Any) -> None:
    graph = (
        'graph [\n directed 0\n node [ id 1 geocode "de" ]\n node [ id 2 ]\n edge [ source 1 target 2 latency 5 ]\n]\n'
    )
    found = parsed(file.make(None, graph=write("g", graph), places=True))["network"]["places"]
    assert found["node-1"]["country"] == "DE"
    assert "country" not in found["node-2"]
    with pytest.raises(PenstockError, match="g:3: node 1: the geocode is 5; it must have two letters"):
        file.make(None, graph=write("g", graph.replace('"de"', "5")), places=True)


def test_guards_need_250_kib_or_the_median(write: Any) -> None:
    hosts = HOSTS.replace('"exitrelay 4000 5242880', f'"exitrelay 4000 {250 * 1024}').replace('"81"', '"9000"')
    hosts = hosts.replace('"78"', '"9000"').replace('"235"', '"9000"').replace("204800 409600", "900000 900000")
    more = '<software id="m" plugin="scallion" arguments="relay 9 %d 900000"/>\n<node id="more" cluster="DEDE" '
    more += 'software="m" bandwidthdown="9000" bandwidthup="9000"/>\n</hosts>'
    for rate, flags in ((250 * 1024, ["guard"]), (250 * 1024 - 1, [])):
        text = file.make(write("h", hosts.replace("</hosts>", more % rate)), graph=write("g", TOPOLOGY))
        relays = parsed(text.replace("20480 40960", "1 1"))["relays"]
        assert relays["more"]["flags"] == flags, rate
        assert relays["nonexit1"]["flags"] == ["guard"]


def test_hosts_of_clients_are_checked_like_hosts_of_relays(write: Any) -> None:
    mixed = CONFIG.replace('<node id="webclient1"', '<node id="webclient1" bandwidthdown="50"')
    with pytest.raises(PenstockError, match="c: some hosts of the group web have a bandwidthdown"):
        file.make(write("h", CONFIG), graph=write("g", GRAPHML), clients=write("c", mixed))


def test_arguments_that_do_not_fit_are_refused(penstock: Command, write: Any) -> None:
    hosts, graph = write("h.xml", CONFIG), write("g.xml", GRAPHML)
    for arguments, said in (
        ([], "no input is given; name a FILE with relays, --graph FILE or --circuits FILE"),
        ([str(hosts)], "hosts of Shadow need the graph of their places; add --graph FILE"),
        (["--graph", str(graph), "--clients", str(hosts)], "need a FILE with relays"),
        (["--circuits", str(write("c", "a b!\n"))], "c:1: 'b!' is not a name of a relay"),
        (["--circuits", str(write("d", NSTOR.replace("3584000", "x", 1)))], "d:1: this is not a circuit of nstor"),
        (["--circuits", str(write("e", NSTOR.replace("1536000", "9", 1)))], "has another bandwidth in an earlier line"),
    ):
        assert said in sentence(penstock("network", *arguments))
