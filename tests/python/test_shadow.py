"""`penstock export shadow` and `penstock import shadow`, with made-up keys and logs."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import SIZES, chromium
from conftest import Command, sentence

LINE = """
[scenario]
title = "A line of relays that C tor can run"
[run]
seeds = [3]
duration = "60 s"
warmup = "5 s"
[network]
rtt = "80 ms"
[relay]
preset = "tor-0.4.9-noconflux"
[client]
preset = "tor-0.4.9-noconflux"
optimistic_data = false
[relays.entry]
link = "1 MiB/s"
[relays.middle]
bandwidth_rate = "128 KiB/s"
[relays.exit]
[servers.site]
[workloads.web]
size = "100 KiB"
pause = "uniform(1 s, 2 s)"
[workloads.bulk]
size = "1 MiB"
pause = "0 s"
circuits = 2
timeout = "30 s"
[clients.web]
workload = "web"
path = ["entry", "middle", "exit"]
[clients.Bulk_1]
workload = "bulk"
path = ["entry", "middle", "exit"]
"""

NETWORK = """
[scenario]
title = "Two kinds of clients in a small network"
[run]
duration = "60 s"
[network]
latency = "geographic"
access = "5 ms"
[relay]
preset = "tor-0.4.9-noconflux"
[client]
preset = "tor-0.4.9-noconflux"
optimistic_data = false
path = "tor"
[relays.guards]
count = 3
weight = "3 MiB/s"
flags = ["guard"]
[relays.exits]
count = 2
weight = "1 MiB/s"
flags = ["exit"]
[servers.site]
[workloads.web]
size = "mix(1: 50 KiB, 3: 1 MiB)"
pause = "1 s"
fresh_circuit = true
[clients.web]
count = 4
workload = "web"
"""

FAKE_TOR = r"""#!/bin/sh
while [ "$1" != --DataDirectory ]; do shift; done
mkdir -p "$2/keys"
echo "a key" > "$2/keys/secret_id_key"
echo > "$2/lock"
echo "key $(basename "$2" | sha1sum | cut -c1-40 | tr a-f A-F)" > "$2/fingerprint"
"""

FAKE_GENCERT = r"""#!/bin/sh
while [ "$1" != -c ]; do shift; done
printf 'x\nfingerprint AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n' > "$2"
"""


@pytest.fixture
def programs(tmp_path: Path) -> list[str]:
    """Options with programs that make up keys, so that the tests need no Tor."""
    for name, text in (("fake-tor", FAKE_TOR), ("fake-gencert", FAKE_GENCERT)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return ["--tor", str(tmp_path / "fake-tor"), "--gencert", str(tmp_path / "fake-gencert")]


def export(penstock: Command, programs: list[str], text: str, *options: str) -> Path:
    (penstock.directory / "line.toml").write_text(text)
    done = penstock("export", "shadow", "line.toml", "--out", "sim", *programs, *options)
    assert done.status == 0, done.err
    return penstock.directory / "sim"


def host(out: Path, name: str) -> str:
    """The entry of a host in the configuration."""
    found = re.search(rf'^  "{name}":\n((?:    .*\n)+)', (out / "shadow.yaml").read_text(), re.MULTILINE)
    assert found, name
    return found[1]


def node(out: Path, name: str) -> dict[str, str]:
    """The rates of the node of a host in the graph."""
    number = re.search(r"network_node_id: ([0-9]+)", host(out, name))
    assert number
    entry = re.search(rf"node \[\n    id {number[1]}\n((?:    host.*\n)+)", (out / "network.gml").read_text())
    assert entry
    return dict(re.findall(r'(host_\w+) "([^"]*)"', entry[1]))


def test_hosts_at_one_place_send_and_receive_at_their_own_rates(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, LINE, "--set", 'relays.exit.link_up="128 KiB/s"')
    assert node(out, "exit") == {"host_bandwidth_down": "83886080 bit", "host_bandwidth_up": "1048576 bit"}
    assert node(out, "middle")["host_bandwidth_up"] == "83886080 bit"


def test_the_export_has_the_rates_delays_and_software_of_the_scenario(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, LINE)
    assert node(out, "entry") == {"host_bandwidth_down": "8388608 bit", "host_bandwidth_up": "8388608 bit"}
    assert 'latency "40000000 ns"' in (out / "network.gml").read_text()
    middle = (out / "template/hosts/middle/torrc").read_text().splitlines()
    assert {"BandwidthRate 131072 bytes", "BandwidthBurst 131072 bytes", "Schedulers KIST"} <= {*middle}
    assert {"KISTSchedRunInterval 2 msec", "CircuitPriorityHalflife 30", "ExitRelay 0"} <= {*middle}
    assert "ExitRelay 1" in (out / "template/hosts/exit/torrc").read_text()
    parameters = re.search(r"^ConsensusParams (.*)$", (out / "template/hosts/authority1/torrc").read_text(), re.M)
    assert parameters
    assert {"cc_alg=2", "cc_vegas_gamma_exit=186", "cellq_low=10", "cfx_enabled=0"} <= {*parameters[1].split()}
    assert "stop_time: 360 s" in (out / "shadow.yaml").read_text()
    assert "interface_qdisc: round-robin" in (out / "shadow.yaml").read_text()


def test_relative_paths_of_programs_are_absolute_in_shadow(penstock: Command, programs: list[str]) -> None:
    folder = penstock.directory / "programs"
    folder.mkdir()
    for path in programs[1::2]:
        shutil.copy(path, folder)
    relative = ["--tor", "programs/fake-tor", "--gencert", "programs/fake-gencert", "--tgen", "./programs/tgen"]
    out = export(penstock, relative, LINE)
    assert f'path: "{folder / "fake-tor"}"' in host(out, "entry")
    assert f'path: "{folder / "tgen"}"' in host(out, "web")


def test_a_note_says_that_kist_has_no_limit_in_shadow_without_loss(penstock: Command, programs: list[str]) -> None:
    (penstock.directory / "line.toml").write_text(LINE)
    words = ["export", "shadow", "line.toml", *programs]
    assert "KIST limits nothing" in penstock(*words, "--out", "one").out
    assert "KIST" not in penstock(*words, "--out", "two", "--set", "network.loss=0.01").out
    assert "KIST" not in penstock(*words, "--out", "three", "--set", "relay.scheduler='vanilla'").out


def test_clients_with_fixed_paths_use_exactly_these_relays(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, LINE)
    facts = json.loads((out / "penstock.json").read_text())
    keys = {relay["name"]: relay["fingerprint"] for relay in facts["relays"]}
    torrc = (out / "template/hosts/web/torrc").read_text()
    for option, relay in (("EntryNodes", "entry"), ("MiddleNodes", "middle"), ("ExitNodes", "exit")):
        assert f"{option} ${keys[relay]}\n" in torrc
    authority = (out / "template/hosts/authority2/torrc").read_text()
    assert f"TestingDirAuthVoteGuard {keys['entry']}\n" in authority
    assert f"TestingDirAuthVoteExit {keys['exit']}\n" in authority


@pytest.mark.parametrize(("build_timeout", "learns"), [("auto", 0), ("adaptive", 1)])
def test_clients_learn_the_build_timeout_if_it_is_adaptive(
    penstock: Command, programs: list[str], build_timeout: str, learns: int
) -> None:
    out = export(penstock, programs, NETWORK, "--set", f"client.build_timeout={build_timeout}")
    torrc = (out / "template/hosts/web0001/torrc").read_text()
    assert f"LearnCircuitBuildTimeout {learns}\n" in torrc


def test_each_circuit_of_a_workload_is_a_loop_of_downloads_with_its_own_credentials(
    penstock: Command, programs: list[str]
) -> None:
    out = export(penstock, programs, LINE)
    [path] = (out / "conf").glob("bulk-1*.graphml")
    nodes, edges = graph(path)
    streams = {name: facts for name, facts in nodes.items() if name.startswith("stream")}
    assert len(streams) == 2
    assert {facts["recvsize"] for facts in streams.values()} == {"1048576 bytes"}
    assert {facts["timeout"] for facts in streams.values()} == {"30000000 microseconds"}
    assert len({facts["socksusername"] for facts in streams.values()}) == 2
    for name in streams:
        [after] = [target for source, target in edges if source == name]
        assert (after, name) in edges
        assert nodes[after]["time"] == "1000 microseconds"
    assert nodes["start"]["peers"] == "11.3.0.1:80"


def test_sizes_with_probabilities_and_fresh_circuits(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, NETWORK)
    [path] = (out / "conf").glob("web*.graphml")
    nodes, _ = graph(path)
    streams = {facts["recvsize"]: facts for name, facts in nodes.items() if name.startswith("stream")}
    assert {*streams} == {"51200 bytes", "1048576 bytes"}
    assert all("socksusername" not in facts for facts in streams.values())
    seeds = [facts["socksauthseed"] for name, facts in nodes.items() if name.startswith("stream")]
    assert len({*seeds}) == len(seeds)
    assert '<data key="weight">0.25</data>' in path.read_text()


def test_authorities_vote_with_the_weights_and_flags_of_the_scenario(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, NETWORK)
    facts = json.loads((out / "penstock.json").read_text())
    lines = (out / "conf/bandwidths").read_text().splitlines()
    assert lines[0] == "946684800"
    measured = {name: int(value) for name, value in re.findall(r"node_id=\$(\w+) bw=([0-9]+)", "\n".join(lines))}
    of = {relay["name"]: measured[relay["fingerprint"]] for relay in facts["relays"]}
    heavy = [weight for name, weight in of.items() if name.startswith("guards")]
    light = [weight for name, weight in of.items() if name.startswith("exits")]
    assert len(heavy) == 3
    assert len(light) == 2
    assert heavy[0] == pytest.approx(3 * light[0], rel=1e-5)
    assert len(measured) == 8
    guards = re.search(r"TestingDirAuthVoteGuard (.*)", (out / "template/hosts/authority1/torrc").read_text())
    assert guards
    assert {*guards[1].split(",")} == {each["fingerprint"] for each in facts["relays"] if each["guard"]}


def test_relays_have_the_families_of_the_scenario(penstock: Command, programs: list[str]) -> None:
    text = NETWORK.replace("[relays.guards]", '[relays.guards]\nfamily = "exits0001"')
    # Only the relays guards0002 and exits0001 declare each other.
    text = text.replace("[relays.exits]", '[relays.exits]\nfamily = "guards0002"')
    out = export(penstock, programs, text)
    facts = json.loads((out / "penstock.json").read_text())
    keys = {relay["name"]: relay["fingerprint"] for relay in facts["relays"]}
    torrcs = {name: (out / "template/hosts" / name / "torrc").read_text() for name in keys}
    assert f"MyFamily ${keys['exits0001']}\n" in torrcs["guards0002"]
    assert f"MyFamily ${keys['guards0002']}\n" in torrcs["exits0001"]
    assert sum("MyFamily" in torrc for torrc in torrcs.values()) == 2


def test_delays_between_places_are_those_of_the_network_with_this_seed(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, NETWORK, "--seed", "5")
    first = (out / "network.gml").read_text()
    assert first.count("node [") == 11
    assert first.count("edge [") == 66
    # Shadow's parser refuses two keys on one line.
    assert all(re.fullmatch(r'[a-z_]+ ("[^"]*"|[0-9.e-]+|\[)|\]', line.strip()) for line in first.splitlines())
    shutil.rmtree(out)
    assert (export(penstock, programs, NETWORK, "--seed", "5") / "network.gml").read_text() == first
    shutil.rmtree(out)
    assert (export(penstock, programs, NETWORK, "--seed", "6") / "network.gml").read_text() != first


def test_a_scenario_with_numbered_networks_keeps_its_network_when_the_seed_changes(
    penstock: Command, programs: list[str]
) -> None:
    text = NETWORK.replace('duration = "60 s"', 'duration = "60 s"\nnetworks = [7, 8]')
    first = (export(penstock, programs, text, "--seed", "5") / "network.gml").read_text()
    shutil.rmtree(penstock.directory / "sim")
    out = export(penstock, programs, text, "--seed", "6")
    assert (out / "network.gml").read_text() == first
    assert json.loads((out / "penstock.json").read_text())["network"] == "7"
    shutil.rmtree(penstock.directory / "sim")
    out = export(penstock, programs, text, "--set", "run.networks=[8]")
    assert (out / "network.gml").read_text() != first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("relay.scheduler='kist'", "client.scheduler='kist'"), "scheduler = 'kist'"),
        (("relay.circuit_policy='round-robin'",), "circuit_policy = 'round-robin'"),
        (("relay.hop_control='n23'", "client.hop_control='n23'"), "n23"),
        (("client.optimistic_data=true",), "add --set client.optimistic_data=false"),
        (("network.jitter='1 ms'",), "jitter"),
        (
            (
                "relays.entry.flags=['guard']",
                "relays.exit.flags=['exit']",
                "clients.web.path='tor'",
                "clients.web.build_timeout={ min_circuits = 20 }",
            ),
            "other parameters than C tor",
        ),
        (("relays.middle.bandwidth_rate='20 KiB/s'",), "at least 76800 B/s"),
        (("relay.refill='1 s'", "relay.refill_unblock='none'"), "relay.refill_unblock"),
        (("clients.web.path=['entry', 'exit']",), "a path of 2 relays"),
        (("relays.entry.link_queue='20 KiB'",), "link_queue"),
        (("servers.site.think_time='1 s'",), "think_time"),
        (("relay.edge_queue_high=100",), "nodes differ in edge_queue"),
    ],
)
def test_a_scenario_that_shadow_cannot_express_is_refused_with_a_sentence(
    penstock: Command, programs: list[str], change: tuple[str, ...], words: str
) -> None:
    (penstock.directory / "line.toml").write_text(LINE)
    sets = [word for each in change for word in ("--set", each)]
    done = penstock("export", "shadow", "line.toml", "--out", "sim", *programs, *sets)
    assert done.status == 2
    assert words in sentence(done)
    assert not (penstock.directory / "sim").exists()


def test_without_tor_a_sentence_names_the_missing_program(penstock: Command) -> None:
    (penstock.directory / "line.toml").write_text(LINE)
    options = ["--tor", "/nonexistent/tor", "--gencert", "/nonexistent/gencert"]
    done = penstock("export", "shadow", "line.toml", "--out", "sim", *options)
    assert done.status == 2
    assert "install Debian's package tor" in sentence(done)
    assert not (penstock.directory / "sim").exists()


@pytest.mark.skipif(not (shutil.which("tor") and shutil.which("tor-gencert")), reason="C tor is not installed")
def test_c_tor_accepts_every_configuration(penstock: Command) -> None:
    out = export(penstock, [], NETWORK)
    shutil.copytree(out / "template", out / "shadow.data")
    facts = json.loads((out / "penstock.json").read_text())
    for name in ("authority1", facts["relays"][0]["host"], facts["relays"][4]["host"], facts["clients"][0]["host"]):
        words = ["tor", "--defaults-torrc", "../../../conf/common.torrc", "-f", "torrc", "--verify-config"]
        done = subprocess.run(words, cwd=out / "shadow.data/hosts" / name, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def graph(path: Path) -> tuple[dict[str, dict[str, str]], set[tuple[str, str]]]:
    space = "{http://graphml.graphdrawing.org/xmlns}"
    root = ElementTree.fromstring(path.read_text())  # noqa: S314
    nodes = {
        node.attrib["id"]: {data.attrib["key"]: data.text or "" for data in node} for node in root.iter(f"{space}node")
    }
    return nodes, {(edge.attrib["source"], edge.attrib["target"]) for edge in root.iter(f"{space}edge")}


START = 946_684_800 + 300
"""The Unix time at which an exported scenario begins [s]."""


def stream(at: float, vertex: str, size: int, *, first: float, last: float, error: str = "NONE") -> str:
    """A line of tgen's log for a download that began at the time `at` of the scenario."""
    tag = "stream-success" if error == "NONE" else "stream-error"
    created, now = round(at * 1e6) + 77, round((at + last + 0.5) * 1e6) + 77
    return (
        f"2000-01-01 00:05:10 {START + at + last + 0.5:.6f} [message] [tgen-stream.c:1738] [_tgenstream_log] [{tag}] "
        f"transport [fd=8,local=127.0.0.1:1,proxy=127.0.0.1:9000,remote=11.3.0.1:80,state=SUCCESS,error=NONE] stream "
        f"[id=1,vertexid={vertex},name=web,peername=site,sendsize=0,recvsize={size},sendstate=SEND_SUCCESS,"
        f"recvstate=RECV_SUCCESS,error={error}] bytes [total-bytes-recv={size + 90},payload-bytes-recv={size}] times "
        f"[created-ts={created},usecs-to-socket-create=1,usecs-to-proxy-response=200000,usecs-to-command=200001,"
        f"usecs-to-first-byte-recv={round(first * 1e6)},usecs-to-last-byte-recv={round(last * 1e6)},now-ts={now}]\n"
    )


def beat(second: int, sent: str, received: str) -> str:
    """A heartbeat of C tor, this many seconds after the start of the scenario."""
    return (
        f"Jan 01 00:{5 + second // 60:02}:{second % 60:02}.000 [notice] Heartbeat: Tor's uptime is 0:05 hours, with 2 "
        f"circuits open. I've sent {sent} and received {received}. I've received 3 connections on IPv4 and 0 on IPv6.\n"
    )


def connected(at: float, circuit: int, relays: list[dict[str, Any]]) -> str:
    """The lines of a client's C tor about a stream that was connected at this time of the scenario."""
    when = f"Jan 01 00:{5 + int(at) // 60:02}:{int(at) % 60:02}.{int(at * 1000) % 1000:03} [info]"
    path = " ".join(f"${relay['fingerprint']}(open)" for relay in relays)
    return (
        f"{when} connection_edge_process_relay_cell_not_open(): 'connected' received for circid {circuit} streamid 7 "
        f"after 0 seconds.\n{when} exit circ (length 3): {path}\n"
    )


def consensus(relays: list[dict[str, Any]]) -> str:
    import base64

    rows = [
        f"r x {base64.b64encode(bytes.fromhex(relay['fingerprint'])).decode().rstrip('=')} 2000-01-01 00:00:00 "
        f"11.1.0.1 9001 0\ns Fast Running Valid\nw Bandwidth={1000 + place}\n"
        for place, relay in enumerate(relays)
    ]
    return "".join(rows)


def pretend(out: Path, *, faster: float = 1.0) -> None:
    """Write the logs that Shadow would have written."""
    facts = json.loads((out / "penstock.json").read_text())
    hosts = out / "shadow.data/hosts"
    web = [
        stream(2.0 + 2 * n, "stream-1-0-0", 102_400, first=0.5 * faster, last=(1 + n / 10) * faster) for n in range(9)
    ]
    bulk = [
        stream(1.0, "stream-0-0-0", 1 << 20, first=0.6, last=20.0),
        stream(1.0, "stream-0-1-0", 1 << 20, first=-0.000001, last=30.0, error="TIMEOUT"),
    ]
    for name, lines in (("web", web), ("bulk-1", bulk)):
        (hosts / name).mkdir(parents=True)
        (hosts / name / "tgen.1001.stdout").write_text("".join(lines))
    # The first three streams have one circuit. Another circuit is that of a directory request.
    entry, last, middle = sorted(facts["relays"], key=lambda relay: str(relay["name"]))
    lines = [connected(2.2 + 2 * n, 70 if n < 3 else 71, [entry, middle, last]) for n in range(9)]
    lines.insert(1, connected(3.0, 72, [last, middle, entry]))
    (hosts / "web" / "fake-tor.1000.stdout").write_text("".join(lines))
    for relay in facts["relays"]:
        (hosts / relay["host"]).mkdir()
        beats = [beat(0, "512 kB", "1.00 MB"), beat(1, "1.00 MB", "1.50 MB"), beat(2, "1.25 MB", "3.00 MB")]
        (hosts / relay["host"] / "fake-tor.1000.stdout").write_text("".join(beats))
    (hosts / "authority1").mkdir()
    (hosts / "authority1/cached-microdesc-consensus").write_text(consensus(facts["relays"]))
    (out / "shadow.data/sim-stats.json").write_text("{}")
    (out / "shadow.log").write_text("00:00:00.1 [1:x] n/a start\n00:01:02.500000 [1:x] n/a end\n")


def test_an_aborted_run_is_not_imported(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, LINE)
    pretend(out)
    (out / "shadow.data/sim-stats.json").unlink()
    done = penstock("import", "shadow", str(out), "--out", "run")
    assert done.status == 2
    assert "its run is not finished" in sentence(done)


def test_the_import_has_the_downloads_bytes_and_weights_of_shadow(penstock: Command, programs: list[str]) -> None:
    out = export(penstock, programs, LINE)
    pretend(out)
    done = penstock("import", "shadow", "sim", "--out", "run")
    assert done.status == 0, done.err
    transfers = pl.read_parquet(penstock.directory / "run/transfers.parquet")
    web = transfers.filter(client="web")
    assert web.height == 9
    assert web["start_s"].to_list() == pytest.approx([2.0 + 2 * n for n in range(9)], abs=1e-5)
    assert web["ttlb_s"].to_list() == pytest.approx([1 + n / 10 for n in range(9)])
    assert web["connect_s"].to_list() == pytest.approx([0.2] * 9)
    assert web["warmup"].to_list() == [True, True, *[False] * 7]
    bulk = transfers.filter(client="Bulk_1").sort("circuit")
    assert bulk["outcome"].to_list() == ["ok", "timeout"]
    assert bulk["ttlb_s"].to_list() == [20.0, None]
    assert bulk["ttfb_s"].to_list() == [0.6, None]
    assert bulk["circuit"].n_unique() == 2
    first, second = web["circuit"].unique(maintain_order=True)
    assert web["circuit"].to_list() == [first] * 3 + [second] * 6
    assert web["stream"].to_list() == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    paths = pl.read_parquet(penstock.directory / "run/paths.parquet")
    assert paths.select("circuit", "client", "guard", "middle", "exit").rows() == [
        (first, "web", "entry", "middle", "exit"),
        (second, "web", "entry", "middle", "exit"),
    ]
    relays = pl.read_parquet(penstock.directory / "run/relays.parquet").filter(relay="middle")
    assert relays["t_s"].to_list() == [1.0, 2.0]
    assert relays["written_bytes"].to_list() == [512 << 10, 256 << 10]
    assert relays["read_bytes"].to_list() == [512 << 10, 1536 << 10]
    manifest = json.loads((penstock.directory / "run/manifest.json").read_text())
    assert [each["consensus_weight"] for each in manifest["consensus"]] == [1000, 1001, 1002]
    assert manifest["world"] == "shadow"
    assert manifest["runs"][0]["wall_seconds"] == 62.5


def test_an_import_is_compared_with_the_simulator_and_gets_a_report(penstock: Command, programs: list[str]) -> None:
    pretend(export(penstock, programs, LINE))
    assert penstock("import", "shadow", "sim", "--out", "shadow").status == 0
    assert penstock("run", "line.toml", "--out", "ours", "--no-report").status == 0
    done = penstock("compare", "shadow", "ours", "--out", "page")
    assert done.status == 0, done.err
    assert "web" in done.out
    assert "downloads); C tor in Shadow\nB: ours" in done.out
    page = penstock.directory / "page/report.html"
    assert 'scope="rowgroup">web: time to first byte' in page.read_text()
    with chromium() as browser:
        for width in SIZES:
            shown = browser.new_page(viewport={"width": width, "height": 900})
            shown.goto(page.as_uri())
            # Only figures and tables scroll sideways, and the relative difference needs no scrolling.
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
            head = "[...document.querySelectorAll('th')].find(each => each.innerText == 'relative')"
            assert shown.evaluate(f"{head}.getBoundingClientRect().right") <= width, width
            assert shown.evaluate("document.querySelector('figure svg').getBoundingClientRect().width") > 500
    done = penstock("report", "shadow")
    assert done.status == 0, done.err
    for table in ("transfers", "paths", "relays", "circuits", "cells", "clients"):
        ours, theirs = (
            pl.read_parquet_schema(penstock.directory / name / f"{table}.parquet") for name in ("ours", "shadow")
        )
        assert ours == theirs, table


def test_an_output_becomes_plot_data_of_tornettools(penstock: Command) -> None:
    (penstock.directory / "line.toml").write_text(LINE.replace('timeout = "30 s"', 'timeout = "9 s"'))
    assert penstock("run", "line.toml", "--runs", "2", "--out", "ours", "--no-report").status == 0
    done = penstock("export", "tornettools", "ours", "--out", "plots")
    assert done.status == 0, done.err
    folder = penstock.directory / "plots/default/3/tornet.plot.data"
    data = {path.stem: json.loads(path.read_text()) for path in folder.iterdir()}
    transfers = pl.read_parquet(penstock.directory / "ours/transfers.parquet").filter(warmup=False, seed=3)
    ok = transfers.filter(outcome="ok", workload="web")
    assert data["time_to_last_byte_recv"]["102400"] == (ok["ttlb_s"] - ok["connect_s"]).to_list()
    assert data["time_to_last_byte_recv.exit"] == data["time_to_last_byte_recv"]
    bulk = transfers.filter(client="Bulk_1", outcome="timeout").height
    assert bulk
    assert [bulk * each[1] for each in data["error_rate"]["TIMEOUT"]] == [
        each[0] for each in data["error_rate"]["TIMEOUT"]
    ]
    written = pl.read_parquet(penstock.directory / "ours/relays.parquet").filter(seed=3)["written_bytes"].sum()
    assert sum(data["relay_goodput"].values()) == written
    assert len(data["perfclient_circuit_build_time"]) == 3
    done = penstock("compare", "plots/default", "ours", "--workload", "web", "--no-report")
    assert done.status == 0, done.err
    medians = [line for line in done.out.splitlines() if "P50" in line]
    assert len(medians) == 2
    assert all("+0.00 s" in line and "+0 %" in line for line in medians)


def test_times_without_a_request_are_no_plot_data(penstock: Command) -> None:
    (penstock.directory / "line.toml").write_text(LINE.replace("optimistic_data = false", "optimistic_data = true"))
    assert penstock("run", "line.toml", "--out", "ours", "--no-report").status == 0
    done = penstock("export", "tornettools", "ours", "--out", "plots")
    assert done.status == 2
    assert "optimistic data" in sentence(done)


def test_runs_of_several_seeds_become_one_output(penstock: Command, programs: list[str]) -> None:
    for seed in (8, 7):
        pretend(export(penstock, programs, LINE, "--seed", str(seed)))
        (penstock.directory / "sim").rename(penstock.directory / f"sim{seed}")
    assert penstock("import", "shadow", "sim8", "sim7", "--out", "run").status == 0
    manifest = json.loads((penstock.directory / "run/manifest.json").read_text())
    assert [run["seed"] for run in manifest["runs"]] == [7, 8]
    done = penstock("import", "shadow", "sim8", "sim8", "--out", "again")
    assert done.status == 2
    assert "are the same run" in sentence(done)


def test_a_run_that_has_not_finished_is_refused(penstock: Command, programs: list[str]) -> None:
    export(penstock, programs, LINE)
    done = penstock("import", "shadow", "sim", "--out", "run")
    assert done.status == 2
    assert "its run is not finished" in sentence(done)
    assert not (penstock.directory / "run").exists()
    (penstock.directory / "empty").mkdir()
    assert "no penstock.json" in sentence(penstock("import", "shadow", "empty", "--out", "run"))
