"""How many clients of a workload have a flag, minute by minute, for docs/validation/throttling.md.

    penstock run throttling/loads-authors --variant flag-medium --set 'trace.clients="10 s"' --out runs/flags
    python benches/flags.py runs/flags [--workload bulk] [--markdown PAGE]

Each row is a minute after the warm-up, with the mean over runs of

- the share of the workload's clients that received bytes in the minute and had a flag at the end of an interval of it,
- the share of the workload's bytes in intervals without a flag, and
- the workload's part of the bytes of all clients.
"""

import argparse
from pathlib import Path

import polars as pl

from penstock import generated
from penstock.paper import totals
from penstock.replicates import RUN
from penstock.result import Result

BLOCK = "benches/flags.py"
HEAD = ["variant", "minute", "clients with a flag", "bytes without a flag", "part of all bytes"]

BYTES = pl.col("received_bytes")


def minutes(result: Result, variant: str, workload: str) -> pl.DataFrame:
    """The shares of each minute from the end of the warm-up: columns `minute`, `flagged`, `free` and `part`."""
    rows = totals.received(result, variant, workload)
    everyone = totals.in_intervals(result, variant, result.clients)
    start = everyone["t_s"].min()
    minute = ((pl.col("t_s") - start) / 60).floor().cast(pl.Int64) + 1
    users = rows.group_by(*RUN, "client", minute=minute).agg(pl.col("throttled").any())
    flagged = users.group_by(*RUN, "minute").agg(flagged=pl.col("throttled").mean())
    mine = rows.group_by(*RUN, minute=minute).agg(bytes=BYTES.sum(), free=BYTES.filter(~pl.col("throttled")).sum())
    every = everyone.group_by(*RUN, minute=minute).agg(every=BYTES.sum())
    shares = flagged.join(mine, on=[*RUN, "minute"]).join(every, on=[*RUN, "minute"])
    columns = {
        "flagged": pl.col("flagged"),
        "free": pl.col("free") / pl.col("bytes"),
        "part": pl.col("bytes") / pl.col("every"),
    }
    return shares.with_columns(**columns).group_by("minute").agg(pl.col(*columns).mean()).sort("minute")


def table(result: Result, workload: str) -> str:
    """The table: the rows of each variant."""
    rows = [
        [label, str(minute), *(f"{100 * share:.0f} %" for share in shares)]
        for name, label in result.variants.items()
        for minute, *shares in minutes(result, name, workload).iter_rows()
    ]
    return generated.table(HEAD, rows)


def main() -> None:
    """Print the table, or also write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="an output with trace.clients")
    parser.add_argument("--workload", default="bulk", help="whose clients are counted")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="also write the table into PAGE")
    options = parser.parse_args()
    result = Result(options.output)
    body = table(result, options.workload)
    print(body)
    if options.markdown:
        generated.write(options.markdown, f"{BLOCK} {result.scenario['name']}", body)


if __name__ == "__main__":
    main()
