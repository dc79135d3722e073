"""Whatever is done to a document of others: it becomes a table of downloads, or one sentence that names it."""

import copy
import json
import lzma
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import measured
import pytest
from damage import NASTY, places, put
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.compare import compare, read, sides
from penstock.compare.source import SCHEMA
from penstock.errors import PenstockError

DOCUMENTS: dict[str, Any] = {
    "1.onionperf.analysis.json": measured.old(2),
    "3.onionperf.analysis.json": measured.new(2),
    "tgen.analysis.json": measured.summary(2, 2),
    "tor_metrics_1--2.json": measured.metrics(),
    "client.log": measured.log(),
    "before.log": measured.log(before=True),
}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["51200", "-1", "1e400", "nan", 2**63, 2**70, -0.0, 1e308, "\n", "9" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)

often = settings(
    max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
fuzzed = pytest.mark.parametrize("name", DOCUMENTS)
analyses = pytest.mark.parametrize("name", [name for name in DOCUMENTS if name.endswith(".json")])


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    """Skip the bootstrap, which these tests do not cover and which takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sides, "DRAWS", 10)
        yield


def check(path: Path, *, comparing: bool = False) -> None:
    """A table with nothing impossible in it, or a sentence."""
    try:
        source = read(str(path))
    except PenstockError as error:
        said = str(error)
        assert str(path.parent) in said, said
        assert "\n" not in said
        assert len(said) < 200 + 2 * len(str(path)) + 200, said
        return
    assert dict(source.downloads.schema) == SCHEMA
    for column in ("ttfb_s", "ttlb_s", "ttfb_request_s", "ttlb_request_s"):
        for time in source.downloads[column].drop_nulls():
            assert math.isfinite(time)
            assert time >= 0
    assert (source.downloads["bytes"] > 0).all()
    assert set(source.downloads["outcome"]) <= {"ok", "timeout", "failed"}
    # Fifty times as much work as reading.
    if not comparing:
        return
    with suppress(PenstockError):
        assert all(row.difference_s == 0 for row in compare(source, source).rows)


def plain(name: str) -> bytes:
    document = DOCUMENTS[name]
    return document.encode() if isinstance(document, str) else json.dumps(document).encode()


@fuzzed
@pytest.mark.parametrize("pack", [bytes, lzma.compress], ids=["plain", "packed"])
@often
@given(data=st.data())
def test_damaged_bytes(
    tmp_path_factory: pytest.TempPathFactory, name: str, pack: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    whole = pack(plain(name))
    place = st.integers(0, len(whole))
    start, end = sorted((data.draw(place), data.draw(place)))
    # A cut to the end is a document that is cut short.
    damaged = whole[:start] + data.draw(st.binary(max_size=12)) + (whole[end:] if data.draw(st.booleans()) else b"")
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(damaged)
    check(path)


@analyses
def test_each_value_is_replaced_by_a_wrong_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = json.dumps(DOCUMENTS[name])
    for shape in {shape for shape, _, _ in places(DOCUMENTS[name])}:
        for last in (False, True):
            for value in [*NASTY, ...]:
                document = json.loads(whole)
                alike = [(inside, key) for each, inside, key in places(document) if each == shape]
                inside, key = alike[-last]
                put(inside, key, value)
                path.write_text(json.dumps(document))
                check(path)


@analyses
@often
@given(data=st.data())
def test_other_values_in_the_place_of_some(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    document = copy.deepcopy(DOCUMENTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        # Each kind of place is as likely as any other, however many there are of it.
        shapes = {shape: (inside, key) for shape, inside, key in places(document)}
        if not shapes:
            break
        inside, key = shapes[data.draw(st.sampled_from(sorted(shapes)))]
        what = data.draw(st.sampled_from(["value", "value", "key", "nothing"]))
        if what == "value":
            inside[key] = data.draw(VALUES)
        elif what == "key" and isinstance(inside, dict):
            inside[data.draw(st.text(max_size=8))] = inside.pop(key)
        else:
            del inside[key]
    path = tmp_path_factory.getbasetemp() / name
    path.write_text(json.dumps(document))
    check(path, comparing=True)


@pytest.mark.parametrize("file", ["time_to_first_byte_recv", "time_to_last_byte_recv", "error_rate"])
def test_each_value_of_plot_data_is_replaced_by_a_wrong_one(tmp_path: Path, file: str) -> None:
    folder = measured.plot_data(tmp_path / "simulation" / "tornet.plot.data")
    path = folder / f"{file}.exit.json"
    whole = path.read_text()
    shapes = {shape: number for number, (shape, _, _) in enumerate(places(json.loads(whole)))}
    for number in shapes.values():
        for value in [*NASTY, ...]:
            document = json.loads(whole)
            _, inside, key = list(places(document))[number]
            put(inside, key, value)
            path.write_text(json.dumps(document))
            check(folder.parent)


@often
@given(data=st.data())
def test_damaged_plot_data(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "simulation" / "tornet.plot.data"
    if not folder.is_dir():
        measured.plot_data(folder)
    file = data.draw(st.sampled_from(["time_to_first_byte_recv", "time_to_last_byte_recv", "error_rate"]))
    path = folder / f"{file}.exit.json"
    whole = path.read_bytes()
    document = json.loads(whole)
    document[data.draw(st.sampled_from([*document, "1234", "x"]))] = data.draw(VALUES)
    text = json.dumps(document)
    path.write_text(text if data.draw(st.booleans()) else text[: data.draw(st.integers(0, len(text)))])
    try:
        check(folder.parent)
    finally:
        path.write_bytes(whole)
