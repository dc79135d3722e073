"""The measures of claims: one number for each run, from the tables of an output directory."""

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from penstock import summary
from penstock.attacks import probe, study, wave
from penstock.paper import congestion, rates, sawtooth, shares, steps, totals, waits
from penstock.paper.totals import EVERY
from penstock.replicates import RUN, RUN_SCHEMA
from penstock.result import Result


class Measure(NamedTuple):
    """The table, the unit and the figures of a measure, and how its values are computed."""

    table: str
    unit: str
    figures: tuple[str, ...]
    of_epoch: Callable[[sawtooth.Epoch], float] | None = None
    """Computes the value of an epoch of a flow's window; NaN without a value."""
    of_rows: Callable[[pl.DataFrame, str], pl.DataFrame] | None = None
    """Computes the values of a table's rows at a hop."""
    of_runs: Callable[[Result, str, str, str], pl.DataFrame] | None = None
    """Computes the values of a variant and workload at a hop.

    Without a function, the values are a column of the table.
    """


MEASURES = {
    "connect_s": Measure("transfers", "s", ("downloads",)),
    "ttfb_s": Measure("transfers", "s", ("downloads", "sweep")),
    "ttlb_s": Measure("transfers", "s", ("downloads", "sweep")),
    "rate_of_mean": Measure("transfers", "kB/s", ("downloads",), of_runs=rates.of_mean),
    "download_rate": Measure("transfers", "kB/s", ("downloads",), of_runs=rates.each),
    "completed": Measure("transfers", "", ("downloads",), of_runs=rates.completed),
    "completed_of_expected": Measure("transfers", "", ("downloads",), of_runs=rates.of_expected),
    "bytes_received": Measure("transfers", "B", ("downloads",)),
    "written_bytes": Measure("relays", "B", ()),
    "network_written_bytes": Measure("transfers", "B", (), of_runs=totals.written),
    "written_per_client": Measure("transfers", "B/s", (), of_runs=totals.written_per_client),
    "network_queue_cells": Measure("transfers", "cells", (), of_runs=totals.queued),
    "network_held_cells": Measure("transfers", "cells", (), of_runs=totals.held),
    "delivered_bytes": Measure("transfers", "B", (), of_runs=totals.delivered),
    "delivered_share": Measure("transfers", "", ("loads",), of_runs=totals.delivered_share),
    "bound_by_tcp": Measure("transfers", "", (), of_runs=totals.bound_by_tcp),
    "throttled_users": Measure("transfers", "", (), of_runs=totals.throttled_users),
    "throttled_bytes": Measure("transfers", "", (), of_runs=totals.throttled_bytes),
    "burstiness": Measure("transfers", "", (), of_runs=congestion.burstiness),
    "load_correlation": Measure("transfers", "", (), of_runs=congestion.by_load),
    "capacity_correlation": Measure("transfers", "", (), of_runs=congestion.by_capacity),
    "longest_queue_cells": Measure("relays", "cells", ()),
    "credit_share": Measure("relays", "", (), of_rows=totals.of_credits),
    "sendme_share": Measure("runs", "", (), of_rows=totals.of_sendmes),
    "calls_per_data_cell": Measure("runs", "", (), of_rows=totals.of_calls),
    "jain_circuits": Measure("transfers", "", (), of_runs=shares.of_circuits),
    "jain_users": Measure("transfers", "", (), of_runs=shares.of_users),
    "slowest_user": Measure("transfers", "", (), of_runs=shares.slowest_user),
    "equal_share": Measure("cells", "", (), of_rows=shares.of_equals),
    "backlog_cells": Measure("cells", "cells", (), of_rows=shares.backlog),
    "decrease_s": Measure("circuits", "s", ("step",), of_runs=steps.decrease),
    "decrease_after_s": Measure("circuits", "s", ("step",), of_runs=steps.decrease_after),
    "decrease_trips": Measure("circuits", "round trips", ("step",), of_runs=steps.decrease_trips),
    "held_back_s": Measure("cells", "s", (), of_runs=steps.held_back),
    "queue_peaks_cells": Measure("circuits", "cells", ("step",), of_runs=steps.queue_peaks),
    "over_window_cells": Measure("circuits", "cells", ("step",), of_runs=steps.over_window),
    **{
        f"attack_{name}": Measure("victims", unit, ("leaks",), of_runs=study.Measure(name))
        for name, unit in {
            "entropy_lost": "bit",
            "eliminated": "bit",
            "gain": "bit",
            "remaining_share": "",
            "true_positive_rate": "",
            "false_positive_rate": "",
            "auc": "",
            "score": "",
            "error_s": "s",
            "pings": "",
            "spread_s": "s",
        }.items()
    },
    "attack_anonymity": Measure("victims", "", ("leaks",), of_runs=study.anonymity),
    "queue_cells": Measure("circuits", "cells", ("circuit-queue",)),
    "window_cells": Measure("circuits", "cells", (), of_runs=totals.windows),
    "window_kept": Measure("circuits", "", (), sawtooth.Epoch.kept),
    "epoch_length": Measure("circuits", "", (), sawtooth.Epoch.length),
    "epoch_concave": Measure("circuits", "", (), sawtooth.Epoch.concave),
    "epoch_convex": Measure("circuits", "", (), sawtooth.Epoch.convex),
    "kernel_in_s": Measure("cells", "s", ("stations",)),
    "circuit_queue_s": Measure("cells", "s", ("stations", "queue-delay", "life-cycle")),
    "outbuf_s": Measure("cells", "s", ("stations", "life-cycle")),
    "kernel_out_s": Measure("cells", "s", ("stations", "waits")),
    "tor_s": Measure("cells", "s", ("waits",), of_rows=waits.in_tor),
    "tor_at_10_ms": Measure("cells", "", ("waits",), of_rows=waits.at_timer),
    "queued_at_sendme": Measure("cells", "", ("queue-delay",), of_runs=waits.at_sendmes),
    "queued_before_sendme": Measure("cells", "", ("queue-delay",), of_runs=waits.at_later_sendmes),
    "circuit_wait_s": Measure("cells", "s", ("waits",), of_rows=waits.of_circuit),
    "kernel_out_share": Measure("cells", "", ("stations",), of_rows=waits.kernel_out_share),
    "probe_rate": Measure("cells", "B/s", ("probe",), of_rows=probe.rate),
    "probe_onset": Measure("cells", "B", ("probe",), of_rows=probe.onset),
    "wave_confirmed": Measure("cells", "", ("wave",), of_runs=wave.confirmed),
    "wave_correlation": Measure("cells", "", ("wave",), of_runs=wave.correlation),
}
"""All measures by name."""

EVERYWHERE = ("transfers", "runs")
"""The tables that have no column for hops."""

_OF_ALL = {"bytes_received"}
"""The measures of complete and incomplete downloads. All other measures use only complete downloads."""

_QUANTILES = {"p10": 0.1, "p25": 0.25, "median": 0.5, "p75": 0.75, "p80": 0.8, "p90": 0.9, "p99": 0.99}

SHARE = "share-above"
"""The statistic for the fraction of a sample above a number."""

STATISTICS = (*_QUANTILES, "mean", "min", "max", "sum", SHARE)
"""The statistics that reduce the values of a run to one number."""


def sample(result: Result, measure: str, variant: str, workload: str, hop: str) -> pl.DataFrame:
    """Every value of a measure under one variant: columns `network`, `seed`, `value`."""
    table, _, _, of_epoch, of_rows, of_runs = MEASURES[measure]
    if of_runs is not None:
        return of_runs(result, variant, workload, hop)
    rows: pl.DataFrame = getattr(result, table).filter(variant=variant)
    if table not in ("relays", "runs") and workload != EVERY:
        rows = rows.filter(workload=workload)
    if of_rows is not None:
        return of_rows(rows, hop).select(*RUN, "value").drop_nulls()
    if table == "transfers":
        rows = summary.after_warmup(rows) if measure in _OF_ALL else summary.counted(rows)
    else:
        rows = rows.filter(pl.col("relay" if table == "relays" else "hop") == hop)
    if of_epoch is None:
        return rows.select(*RUN, value=pl.col(measure).cast(pl.Float64)).drop_nulls()
    return _of_epochs(rows, of_epoch)


def _of_epochs(rows: pl.DataFrame, of_epoch: Callable[[sawtooth.Epoch], float]) -> pl.DataFrame:
    values = [
        (*run, of_epoch(epoch))
        for (*run, _), flow in rows.group_by([*RUN, "client"], maintain_order=True)
        for epoch in sawtooth.epochs(flow)
    ]
    return pl.DataFrame(values, {**RUN_SCHEMA, "value": pl.Float64()}, orient="row").drop_nans()


def each_run(values: pl.DataFrame, statistic: str, above: float) -> pl.DataFrame:
    """One number for each run with values, in the order of networks and seeds."""
    column = pl.col("value")
    if statistic in _QUANTILES:
        number = column.quantile(_QUANTILES[statistic], "linear")
    elif statistic == SHARE:
        number = (column > above).mean()
    else:
        simple = {"mean": column.mean(), "min": column.min(), "max": column.max(), "sum": column.sum()}
        number = simple[statistic]
    return values.group_by(RUN).agg(value=number).sort(RUN)
