"""A scenario's claims in outputs of other runs, for docs/validation/kist.md, ewma.md and attacks.md.

    penstock run kist/full --set 'run.networks=[2]' --out runs/full
    python benches/claims_of.py kist tenth runs/full [NAME=MORE] [--markdown PAGE]

`penstock paper` checks a claim in outputs of its own. This program measures the same claims in any outputs with their
variants: other networks, sizes or durations. Each output is a column with its NAME, or the name of its folder; the
bounds of the claims stay those of the scenario. A claim whose variants an output lacks is left out there, and so are
claims about several scenarios.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock import generated
from penstock.paper import claims, table, verdicts
from penstock.paper.claims import Claim
from penstock.result import Result


def measured(claim: Claim, scenario: str, result: Result) -> str:
    """The number of a claim with its interval; empty if the output lacks one of its variants."""
    if not claim.all_variants <= result.variants.keys():
        return ""
    checked = verdicts.decide(claim, {scenario: result})
    return ", ".join(filter(None, (table.measured(checked), table.interval(checked))))


def compared(paper: str, scenario: str, results: Mapping[str, Result]) -> str:
    """The table: a row for each claim, and a column for each output."""
    rows = []
    for claim in claims.load(paper).of(None, scenario):
        if claim.scenarios != [scenario]:
            continue
        cells = [measured(claim, scenario, result) for result in results.values()]
        if any(cells):
            rows.append([f"`{claim.id}`", f"{table.where(claim)}: {claim.says}", table.bound(claim), *cells])
    return generated.table(["claim", "the paper says", "bound", *results], rows)


def by_name(asked: Sequence[str]) -> dict[str, Path]:
    """The outputs by the names of their columns.

    Raises:
        ValueError: if two have the same name.
    """
    found = {}
    for name, _, path in (each.rpartition("=") for each in asked):
        name = name or Path(path).name
        if name in found:
            raise ValueError(f"two outputs have the name {name!r}; write NAME=OUTPUT")
        found[name] = Path(path)
    return found


def main() -> None:
    """Print the table, or also write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", help="a name of `penstock list papers`")
    parser.add_argument("scenario", help="the scenario of the claims, without the paper's name")
    parser.add_argument("outputs", nargs="+", metavar="[NAME=]OUTPUT", help="outputs with the variants of the claims")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    options = parser.parse_args()
    try:
        outputs = by_name(options.outputs)
    except ValueError as error:
        parser.error(str(error))
    body = compared(options.paper, options.scenario, {name: Result(path) for name, path in outputs.items()})
    print(body)
    if options.markdown:
        generated.write(options.markdown, f"benches/claims_of.py {options.paper} {options.scenario}", body)


if __name__ == "__main__":
    main()
