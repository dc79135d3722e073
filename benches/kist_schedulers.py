"""Compares schedulers with vanilla in networks of KIST, for docs/validation/where-kist-helps.md.

    penstock run kist/tenth --out runs/tenth
    python benches/kist_schedulers.py runs/tenth [MORE] [--markdown PAGE]

MORE is any number of outputs with further variants of the scenario in the same networks.

Each number is the mean over networks of a response with a scheduler, over that with vanilla in the same network.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from kist_factors import RESPONSES, Estimate, percent, responses

from penstock import catalog, generated
from penstock.result import Result

BLOCK = "benches/kist_schedulers.py"
BASELINE = "vanilla"

Responses = dict[str, float]


def of_networks(result: Result, variant: str) -> dict[str, Responses]:
    """The responses of a variant in each network, by the keys of `RESPONSES`."""
    name, document = catalog.resolved(result.scenario, variant)
    found = {}
    for network in sorted({run["network"] for run in result.manifest["runs"] if run["variant"] == variant}):
        run = document.sampled(name, int(network))["run"]
        mine = {"variant": variant, "network": network}
        transfers, relays = result.transfers.filter(**mine), result.relays.filter(**mine)
        found[network] = responses(transfers, relays, run["warmup_s"], run["duration_s"] - run["warmup_s"])
    return found


def table(results: Sequence[Result]) -> str:
    """The table: a row for each scheduler but vanilla, with 95 % intervals over networks."""
    schedulers = {variant: result for result in results for variant in result.variants}
    vanilla = of_networks(schedulers[BASELINE], BASELINE)
    rows = []
    for variant, result in schedulers.items():
        if variant == BASELINE:
            continue
        label, mine = result.variants[variant], of_networks(result, variant)
        both = sorted(vanilla.keys() & mine.keys())
        changes = [
            Estimate.of([math.log(mine[network][key] / vanilla[network][key]) for network in both]) for key in RESPONSES
        ]
        rows.append([label, *(percent(each) for each in changes)])
    note = f"Networks of `{results[0].scenario['name']}`: {len(vanilla)}. Changes against vanilla, with 95 % intervals."
    return f"{note}\n\n{generated.table(['', *RESPONSES.values()], rows)}"


def main() -> None:
    """Print the table, or also write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="+", help="outputs, one of them with the variant vanilla")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    options = parser.parse_args()
    results = [Result(output) for output in options.outputs]
    body = table(results)
    print(body)
    if options.markdown:
        generated.write(options.markdown, f"{BLOCK} {results[0].scenario['name']}", body)


if __name__ == "__main__":
    main()
