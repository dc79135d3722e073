"""Tests of the comparison of schedulers with vanilla, on a short run."""

import math
import re
from pathlib import Path

import polars as pl
import pytest
from conftest import program

from penstock import runs


def test_a_change_is_the_mean_of_the_logarithms_over_networks(tmp_path: Path) -> None:
    study = program("kist_schedulers")
    sets = ['run.duration="20 s"', 'run.warmup="10 s"', "trace.workloads=[]"]
    of_each = {
        name: runs.run("kist/ci", variants=[name], networks=2, runs=1, sets=sets, out=tmp_path / name)
        for name in ("vanilla", "kist")
    }
    lines = study["table"](list(of_each.values())).splitlines()
    assert lines[0] == "Networks of `kist/ci`: 2. Changes against vanilla, with 95 % intervals."
    (row,) = [line for line in lines if line.startswith("| KIST")]
    shown = float(re.findall(r"([-+][\d.]+) % \(", row)[-1])
    logs = []
    for network in ("1", "2"):
        after = {name: each.relays.filter(pl.col("t_s") > 10, network=network) for name, each in of_each.items()}
        written = [int(after[name]["written_bytes"].sum()) for name in ("kist", "vanilla")]
        logs.append(math.log(written[0] / written[1]))
    assert shown == pytest.approx(100 * math.expm1(sum(logs) / 2), abs=0.051)
