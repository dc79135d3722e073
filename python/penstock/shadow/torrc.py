"""Configurations of C tor 0.4.9: authorities, relays and clients of a private network inside Shadow."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock._types import Sampled, SampledClient, SampledRelay, SampledTor

OR_PORT, DIR_PORT, SOCKS_PORT = 9001, 9030, 9000

UNLIMITED = 1 << 30
"""C tor's default of BandwidthRate and BandwidthBurst [B/s]; no limit in a simulated network."""

LARGEST_WEIGHT = 2_000_000
"""The largest weight in the bandwidth file [kB/s]. C tor computes with bytes in 31 bits (`kb_to_bytes()`)."""

BUILD_TIMEOUT_S = 600
"""The build timeout of a client without one [s]."""

LONGEST_USE_S = 30 * 24 * 3600
"""The maximum of MaxCircuitDirtiness in C tor [s]."""

SCHEDULERS = {"vanilla": "Vanilla", "kist-deployed": "KIST", "kist-lite": "KISTLite"}

EPOCH = 946_684_800
"""The time at which Shadow starts: 2000-01-01 [s since 1970]."""


class Node(NamedTuple):
    """An authority or relay, with its keys."""

    name: str
    """The name of the host in Shadow."""
    address: str
    fingerprint: str
    v3ident: str = ""
    """The fingerprint of an authority's voting key; empty for a relay."""


def common(authorities: Sequence[Node]) -> str:
    """The settings of all nodes. The paths are relative to the folder of a host."""
    lines = [
        "TestingTorNetwork 1",
        "DataDirectory .",
        *(
            f"DirAuthority {each.name} orport={OR_PORT} v3ident={each.v3ident} "
            f"{each.address}:{DIR_PORT} {each.fingerprint}"
            for each in authorities
        ),
        "AssumeReachable 1",
        "AuthDirTestReachability 0",
        "EnforceDistinctSubnets 0",
        "NumCPUs 1",
        "Log notice stdout",
        "LogTimeGranularity 1",
        "SafeLogging 0",
        "ContactInfo simulated",
        "DisableDebuggerAttachment 0",
        "ServerDNSResolvConfFile ../../../conf/resolv.conf",
        "ServerDNSTestAddresses",
        "ServerDNSAllowBrokenConfig 1",
        "ServerDNSDetectHijacking 0",
        "DoSCircuitCreationEnabled 0",
        "DoSConnectionEnabled 0",
        "DoSStreamCreationEnabled 0",
        "DoSRefuseSingleHopClientRendezvous 0",
        "ConfluxEnabled 0",
    ]
    return _text(lines)


def authority(node: Node, parameters: str, guards: Sequence[str], exits: Sequence[str]) -> str:
    """An authority that gives the flags Guard and Exit to these fingerprints, and never carries a circuit itself.

    The first vote is after 100 s, when all relays have uploaded their descriptors. C tor takes measured weights only
    from three votes with the relay. The next votes come each hour.
    """
    lines = [
        *_relay(node),
        f"DirPort {node.address}:{DIR_PORT}",
        "AuthoritativeDirectory 1",
        "V3AuthoritativeDirectory 1",
        "ExitRelay 0",
        "ExitPolicy reject *:*",
        "V3BandwidthsFile ../../../conf/bandwidths",
        "MinMeasuredBWsForAuthToIgnoreAdvertised 0",
        "TestingV3AuthInitialVotingInterval 120 seconds",
        "TestingV3AuthInitialVoteDelay 10 seconds",
        "TestingV3AuthInitialDistDelay 10 seconds",
        "V3AuthVotingInterval 1 hour",
        "V3AuthVoteDelay 10 seconds",
        "V3AuthDistDelay 10 seconds",
        "AuthDirVoteStableGuaranteeMinUptime 0",
        "AuthDirVoteStableGuaranteeMTBF 0",
        "AuthDirFastGuarantee 1 KB",
        "TestingMinFastFlagThreshold 0",
        "TestingMinExitFlagThreshold 0",
        f"TestingDirAuthVoteGuard {','.join(guards)}",
        "TestingDirAuthVoteGuardIsStrict 1",
        f"TestingDirAuthVoteExit {','.join(exits)}",
        "TestingDirAuthVoteExitIsStrict 1",
        f"ConsensusParams {parameters}",
    ]
    return _text(lines)


def relay(node: Node, relay: SampledRelay, sample_s: float, *, exits: bool, family: Sequence[str] = ()) -> str:
    """A relay, which logs its bytes after each `sample_s` [s]. `family` has the fingerprints of its family."""
    policy = ["ExitRelay 1", "ExitPolicy accept *:*", "ExitPolicyRejectPrivate 0", "ReducedExitPolicy 0"]
    lines = [
        *_relay(node),
        *(policy if exits else ["ExitRelay 0", "ExitPolicy reject *:*"]),
        *([f"MyFamily {','.join(f'${each}' for each in family)}"] if family else []),
        f"HeartbeatPeriod {max(1, round(sample_s))} seconds",
        *_software(relay["tor"]),
    ]
    return _text(lines)


def client(client: SampledClient, nodes: Sequence[Node]) -> str:
    """A client, whose circuits use the path of the scenario."""
    lifetime = client["circuit_lifetime_s"]
    lines = [
        "ClientOnly 1",
        "ORPort 0",
        # At this level, a client logs the circuit of each stream.
        "Log [app]info notice stdout",
        "ConnectionPadding 0",
        "CircuitPadding 0",
        f"SocksPort 127.0.0.1:{SOCKS_PORT} IsolateSOCKSAuth KeepAliveIsolateSOCKSAuth",
        f"LearnCircuitBuildTimeout {int(client['learns_as_tor'] is not None)}",
        f"CircuitBuildTimeout {max(1, round(client['build_timeout_s'] or BUILD_TIMEOUT_S))} seconds",
        f"MaxCircuitDirtiness {LONGEST_USE_S if lifetime is None else round(lifetime)} seconds",
        "PathBiasUseThreshold 10000",
        "PathBiasCircThreshold 10000",
        *_software(client["tor"]),
    ]
    if client["path"] == "fixed":
        entry, middle, last = (f"${nodes[place].fingerprint}" for place in client["relays"])
        lines += [f"EntryNodes {entry}", f"MiddleNodes {middle}", f"ExitNodes {last}", "StrictNodes 1"]
    else:
        guards = max(1, client["guards"])
        lines += [f"NumEntryGuards {guards}", f"NumPrimaryGuards {guards}"]
        if not client["guards"]:
            lines += ["UseEntryGuards 0"]
    return _text(lines)


def parameters(tor: SampledTor) -> str:
    """The parameters of the consensus, which are the same for all nodes."""
    low, high = tor["edge_queue"]
    values = {
        "cc_alg": 2 if tor["edge_control"] == "vegas" else 0,
        **tor["vegas"],
        "cellq_low": low,
        "cellq_high": high,
        "circ_max_cell_queue_size": tor["max_circuit_queue"],
        "cfx_enabled": 0,
    }
    if tor["circuit_window"] is not None:
        values["circwindow"] = tor["circuit_window"]
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))


def bandwidths(sampled: Sampled, nodes: Sequence[Node], authorities: Sequence[Node]) -> str:
    """The bandwidth file, from which authorities take the weights of the scenario."""
    largest = max(relay["weight"] for relay in sampled["relays"])
    weights = [max(1, round(relay["weight"] / largest * LARGEST_WEIGHT)) for relay in sampled["relays"]]
    lines = [
        str(EPOCH),
        *(f"node_id=${node.fingerprint} bw={weight}" for node, weight in zip(nodes, weights, strict=True)),
        *(f"node_id=${node.fingerprint} bw=1" for node in authorities),
    ]
    return _text(lines)


def _relay(node: Node) -> list[str]:
    return [
        f"Nickname {nickname(node.name)}",
        f"Address {node.address}",
        f"ORPort {node.address}:{OR_PORT}",
        "SocksPort 0",
        "DirCache 1",
    ]


def nickname(name: str) -> str:
    """The nickname of a relay: up to 19 letters and digits."""
    return "".join(filter(str.isalnum, name))[:19] or "relay"


def _software(tor: SampledTor) -> list[str]:
    rate, burst = tor["bandwidth"] or (UNLIMITED, UNLIMITED)
    lines = [
        f"BandwidthRate {rate} bytes",
        f"BandwidthBurst {burst} bytes",
        f"CircuitPriorityHalflife {tor['half_life_s']:g}",
        f"Schedulers {SCHEDULERS[tor['scheduler']]}",
    ]
    if tor["unblock_s"] is not None:
        lines.append(f"TokenBucketRefillInterval {max(1, round(tor['unblock_s'] * 1000))} msec")
    if tor["interval_s"] is not None:
        lines.append(f"KISTSchedRunInterval {max(1, round(tor['interval_s'] * 1000))} msec")
    if tor["socket_factor"] is not None:
        lines.append(f"KISTSockBufSizeFactor {tor['socket_factor']:g}")
    if tor["client_rate"] is not None:
        lines += [f"PerConnBWRate {tor['client_rate']} bytes", f"PerConnBWBurst {tor['client_burst']} bytes"]
    return lines


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
