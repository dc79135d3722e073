"""When SENDMEs arrived at the ends of traced circuits, from the counts in `circuits.parquet`."""

import polars as pl

from penstock.replicates import RUN


def samples(circuits: pl.DataFrame) -> pl.DataFrame:
    """The samples of circuits at one hop, from the first one with a SENDME on: columns `t_s` and `arrived`.

    `arrived` says whether a SENDME arrived since the sample before, and is null in the first sample. Rows are sorted
    by time. Outputs of earlier builds have no count, and so no sample.
    """
    if "sendmes" not in circuits.columns:
        circuits = circuits.with_columns(sendmes=pl.lit(None, pl.UInt64))
    counted = circuits.filter(pl.col("sendmes") > 0).sort("t_s")
    arrived = pl.col("sendmes").diff().over(*RUN, "circuit") > 0
    return counted.select(*RUN, "circuit", "t_s", arrived=arrived)
