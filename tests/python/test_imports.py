"""Commands that print a few facts do not load the libraries of statistics and figures."""

import sys

import pytest
from conftest import Command

HEAVY = {"polars", "numpy", "scipy", "matplotlib", "networkx", "jinja2", "rich"}
SLOW_STATISTICS = {"scipy.stats", "matplotlib.pyplot"}


def loaded(penstock: Command, *words: str) -> set[str]:
    """The modules that a command loads in a process of its own."""
    code = (
        f"import sys; sys.argv = {['penstock', *words]!r}; from penstock import cli; "
        "status = cli.run(); print(status, *sys.modules, file=sys.stderr)"
    )
    done = penstock.run([sys.executable, "-c", code])
    status, *modules = done.err.splitlines()[-1].split()
    assert (status, bool(done.out)) == ("0", True)
    return set(modules)


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("list",), ("list", "algorithms", "ewma")])
def test_help_and_lists_load_no_statistics(penstock: Command, words: tuple[str, ...]) -> None:
    assert not loaded(penstock, *words) & HEAVY


def test_the_version_loads_not_even_the_parser(penstock: Command) -> None:
    assert not loaded(penstock, "version") & {*HEAVY, "typer", "pydantic"}


def test_a_report_loads_neither_scipys_statistics_nor_pyplot(penstock: Command, made_up: str) -> None:
    assert not loaded(penstock, "report", str(made_up)) & SLOW_STATISTICS
