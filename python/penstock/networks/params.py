"""Parameters of a consensus, and the keys of scenarios with the same meaning."""

import re

VEGAS = {
    "cc_sendme_inc": "sendme_inc",
    "cc_cwnd_init": "cwnd_init",
    "cc_cwnd_min": "cwnd_min",
    "cc_cwnd_max": "cwnd_max",
    "cc_cwnd_inc": "cwnd_inc",
    "cc_cwnd_inc_rate": "cwnd_inc_rate",
    "cc_cwnd_inc_pct_ss": "cwnd_inc_pct_ss",
    "cc_sscap_exit": "sscap",
    "cc_ss_max": "ss_max",
    "cc_vegas_alpha_exit": "alpha",
    "cc_vegas_beta_exit": "beta",
    "cc_vegas_gamma_exit": "gamma",
    "cc_vegas_delta_exit": "delta",
    "cc_ewma_cwnd_pct": "ewma_cwnd_pct",
    "cc_ewma_max": "ewma_max",
    "cc_ewma_ss": "ewma_ss",
    "cc_rtt_reset_pct": "rtt_reset_pct",
    "cc_cwnd_full_gap": "cwnd_full_gap",
    "cc_cwnd_full_minpct": "cwnd_full_minpct",
    "cc_cwnd_full_per_cwnd": "cwnd_full_per_cwnd",
    "cc_xoff_client": "xoff",
    "cc_xoff_exit": "xoff",
    "cc_xon_rate": "xon_rate",
    "cc_xon_change_pct": "xon_change_pct",
    "cc_xon_ewma_cnt": "xon_ewma_cnt",
}
"""Parameters of proposal 324, and keys of `edge_control = "vegas"`."""

KEYS = {
    "CircuitPriorityHalflifeMsec": "circuit_policy.half_life",
    "KISTSchedRunInterval": "scheduler.interval",
    "circ_max_cell_queue_size": "max_circuit_queue",
    "circwindow": "edge_control.circuit_window",
    "guard-n-primary-guards-to-use": "client.guards",
    **{name: f"edge_control.{key}" for name, key in VEGAS.items()},
}
"""All parameters with a key. Keys without a section belong to `[relay]` and `[client]`."""

MILLISECONDS = {"CircuitPriorityHalflifeMsec", "KISTSchedRunInterval"}


def found(consensus: bytes) -> dict[str, int]:
    """The parameters with a key in the header of a consensus, and their values."""
    # The line precedes all relays.
    header = consensus.partition(b"\nr ")[0].decode("ascii", "replace")
    line = re.search(r"^params (.*)$", header, flags=re.MULTILINE)
    pairs = re.findall(r"(\S+)=(-?\d+)", line[1]) if line else []
    return {name: int(value) for name, value in pairs if name in KEYS}


def notes(consensus: bytes) -> list[str]:
    """Notes on the parameters of a consensus that a scenario can have; empty without such parameters."""
    each = []
    for name, value in found(consensus).items():
        text = f'"{value} ms"' if name in MILLISECONDS else str(value)
        each.append(f"  {name}={value} is {KEYS[name]} = {text}")
    return ["consensus parameters do not apply; set them in the scenario", *each] if each else []
