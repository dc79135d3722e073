"""No change moves a result unseen: the digests of every shipped scenario's tables are those of `golden.tsv`."""

import golden
import pytest

from penstock import catalog

RECORDED = golden.recorded()


def test_every_variant_has_digests() -> None:
    runs = [golden.Run(name, variant, seed) for name, variant in _variants() for seed in golden.SEEDS]
    assert runs == list(RECORDED)


@pytest.mark.parametrize("scenario", catalog.shipped())
def test_the_tables_of_a_scenario_are_as_recorded(scenario: str) -> None:
    document = golden.load(scenario)
    for run, expected in RECORDED.items():
        if run.scenario == scenario:
            assert golden.digests(document, run) == expected, f"{run}: `make golden` records a change that is meant"


def _variants() -> list[tuple[str, str]]:
    return [(name, variant) for name in catalog.shipped() for variant, _ in golden.load(name).variants()]
