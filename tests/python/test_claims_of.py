"""Tests of a scenario's claims in outputs of other runs."""

from pathlib import Path
from statistics import mean, median

import pytest
from conftest import program

from penstock import runs


def test_a_column_has_the_claims_whose_variants_an_output_has(tmp_path: Path) -> None:
    bench = program("claims_of")
    sets = ['run.stop={ workload = "web", downloads = 4 }']
    both, off = (
        runs.run("ewma/bulk-and-small", variants=names, runs=3, sets=sets, out=tmp_path / "-".join(names))
        for names in (["off", "all"], ["off"])
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in bench["compared"]("ewma", "bulk-and-small", {"both": both, "off": off}).splitlines()
    ]
    assert rows[0][-2:] == ["both", "off"]
    found = {row[0].strip("`"): row for row in rows}
    assert "small-middle" not in found
    assert found["small-off"][-1] == found["small-off"][-2] != ""
    assert found["small-all"][2] == "0.5 to 0.85"
    assert found["small-all"][-1] == ""
    web = both.transfers.filter(workload="web", warmup=False)
    medians = {
        variant: [median(web.filter(variant=variant, seed=seed)["ttlb_s"].drop_nulls()) for seed in (1, 2, 3)]
        for variant in ("all", "off")
    }
    expected = mean(a / b for a, b in zip(medians["all"], medians["off"], strict=True))
    assert float(found["small-all"][-2].split(",")[0]) == pytest.approx(expected, abs=0.006)


def test_a_column_has_a_name_of_its_own() -> None:
    by_name = program("claims_of")["by_name"]
    assert by_name(["runs/full", "256-KiB=runs/256/full"]) == {
        "full": Path("runs/full"),
        "256-KiB": Path("runs/256/full"),
    }
    with pytest.raises(ValueError, match="two outputs have the name 'full'"):
        by_name(["runs/full", "runs/256/full"])
