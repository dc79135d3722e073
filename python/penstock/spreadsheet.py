"""The tables of an output directory as CSV files, beside the Parquet files."""

from pathlib import Path

import polars as pl

from penstock.attacks.study import LEAKS, VICTIMS
from penstock.errors import OutputError, replacing
from penstock.output import TABLES
from penstock.result import Result


def write(result: Result) -> list[Path]:
    """Write a CSV file for each table of a finished directory, batch by batch; returns the files.

    The summary and the differences of variants are CSV files, too, except of a sweep, which has `points.csv`. Numbers
    have all digits of the Parquet files. An empty cell is a missing value.
    """
    if not result.finished:
        raise OutputError(f"{result.directory} is unfinished; --csv needs a finished directory: {result.command}")
    tables = (result.directory / f"{table}.parquet" for table in (*TABLES, VICTIMS, LEAKS))
    written = [_write(table) for table in tables if table.exists()]
    frames = {} if "sweep" in result.manifest else {"summary": result.summary(), "differences": result.differences()}
    for name, frame in frames.items():
        path = result.directory / f"{name}.csv"
        path.unlink(missing_ok=True)
        # Without a complete download there is neither a summary nor a difference.
        if frame.height:
            with replacing(path) as temporary:
                frame.fill_nan(None).write_csv(temporary)
            written.append(path)
    return written


def _write(table: Path) -> Path:
    path = table.with_suffix(".csv")
    try:
        with replacing(path) as temporary:
            pl.scan_parquet(table, glob=False).sink_csv(temporary)
    except pl.exceptions.PolarsError as error:
        raise OutputError(f"{table} is damaged: {error}") from error
    return path
