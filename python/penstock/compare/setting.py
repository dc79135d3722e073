"""The clients and the network of a Penstock output. Runs of one seed form a pair only if both outputs have the same.

Variants of one scenario are always paired, as at the end of a run. Variants of different scenarios or overrides are
paired if they differ only in the software of nodes.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock import catalog

DEFAULTS = ("network", "relay", "client", "server")
NAMED = ("relays", "clients", "servers", "workloads")
"""Sections of a resolved scenario with one table for each node or workload."""

SOFTWARE = frozenset({
    "cpu", "refill", "refill_phase", "refill_unblock", "circuit_policy", "priority_factor", "scheduler",
    "edge_control", "hop_control", "transport", "coalesce_delay", "datagram_timeout", "throttle", "channel_map",
    "authenticated_sendmes", "edge_queue_low", "edge_queue_high", "ecn_threshold", "max_circuit_queue",
    "optimistic_data", "priority_class", "conflux", "conflux_ux", "conflux_path", "send_buffer", "receive_buffer",
    "consensus_n23",
})  # fmt: skip
"""Keys of these tables that describe software, not the identity or the place of a node."""


@dataclass(frozen=True)
class Setting:
    """The clients and the network of a variant."""

    fingerprint: str
    """The fingerprint of the scenario with all variants and overrides."""
    tables: Mapping[str, Mapping[str, Any]]
    """The keys that do not describe software."""


def of(scenario: Mapping[str, Any], variant: str) -> Setting:
    """The setting of a variant, from the scenario in the manifest."""
    document = tomllib.loads(catalog.resolved_text(scenario, variant))
    tables = {name: document.get(name, {}) for name in DEFAULTS}
    tables |= {f"{group}.{name}": keys for group in NAMED for name, keys in document.get(group, {}).items()}
    return Setting(scenario["fingerprint"], {name: _kept(keys) for name, keys in tables.items()})


def apart(a: Setting, b: Setting) -> str:
    """The first key with different values; empty if there is none, so that runs of one seed form pairs."""
    if a.fingerprint == b.fingerprint:
        return ""
    for name in dict.fromkeys((*a.tables, *b.tables)):
        one, other = a.tables.get(name), b.tables.get(name)
        if one is None or other is None:
            return name
        for key in dict.fromkeys((*one, *other)):
            if one.get(key) != other.get(key):
                return f"{name}.{key}"
    return ""


def _kept(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key not in SOFTWARE}
