"""The shape of `manifest.json` and `run.json`: a file of another shape is refused with one sentence."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr, StringConstraints

from penstock.errors import OutputError
from penstock.validation import parse


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class Record(_Shape):
    """The record of a finished run. Keys that are not listed here are costs and counters."""

    variant: StrictStr
    network: Annotated[StrictStr, StringConstraints(pattern=r"^[0-9]{0,19}$")]
    seed: StrictInt


class _Variant(_Shape):
    name: StrictStr
    label: StrictStr


class _Scenario(_Shape):
    name: StrictStr
    title: StrictStr = ""
    fingerprint: StrictStr = ""
    sets: list[StrictStr] = []
    variants: list[_Variant]


class _Asked(_Shape):
    scenario: StrictStr = ""
    variants: list[StrictStr] = []
    networks: list[StrictInt] = []
    seeds: list[StrictInt] = []


class _Sweep(_Shape):
    params: list[StrictStr]
    variants: list[StrictStr]


class _Replay(_Shape):
    directory: StrictStr
    variant: StrictStr


class _Build(_Shape):
    platform: StrictStr = ""
    python: StrictStr = ""
    libraries: dict[StrictStr, StrictStr] = {}


class _Manifest(_Shape):
    version: StrictStr
    build: _Build | None = None
    finished: StrictBool
    asked: _Asked = _Asked()
    scenario: _Scenario
    sweep: _Sweep | None = None
    replay: _Replay | None = None
    shard: Annotated[StrictStr, StringConstraints(pattern=r"^[0-9]{1,9}/[0-9]{1,9}$")] | None = None
    runs: list[Record]


def check_manifest(value: dict[str, Any], path: Path) -> None:
    """Refuse a manifest that Penstock cannot have written."""
    parse(_Manifest, value, path, OutputError)


def check_record(value: dict[str, Any], path: Path, variants: set[str]) -> None:
    """Refuse the record of a run that Penstock cannot have written, or whose variant is not in `variants`."""
    record = parse(Record, value, path, OutputError)
    if record.variant not in variants:
        raise OutputError(f"{path}: the scenario in the manifest has no variant {record.variant!r}")
