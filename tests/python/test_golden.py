"""No change moves a result unseen: the digests of every shipped scenario's tables are those of `golden.tsv`."""

import golden
import pytest

RECORDED = golden.recorded()

THREADS = 3
"""The threads of every second variant. The file has digests of runs in one thread."""


def test_every_variant_has_digests() -> None:
    runs = [golden.Run(name, variant) for name, variant in _variants()]
    assert runs == list(RECORDED)


@pytest.mark.parametrize("scenario", golden.shipped())
def test_the_tables_of_a_scenario_are_as_recorded(scenario: str) -> None:
    document = golden.load(scenario)
    variants = [variant for variant, _ in document.variants()]
    for run, expected in RECORDED.items():
        if run.scenario == scenario:
            several = variants.index(run.variant) % 2 == 0
            found = golden.digests(document, run, THREADS if several else 1)
            assert found == expected, f"{run}: `make golden` records a change that is meant"


def _variants() -> list[tuple[str, str]]:
    return [(name, variant) for name in golden.shipped() for variant, _ in golden.load(name).variants()]
