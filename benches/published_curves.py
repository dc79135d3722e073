"""Reads the curves of four papers' figures from the vector graphics of their public PDFs.

    pip install pdfplumber
    python benches/published_curves.py kist kist.pdf appendices.pdf --output scenarios/kist/curves.csv

The PDFs are those of USENIX Security 2014 (KIST, and the report UMN 14-012 with its appendices) and 2012 (throttling),
PETS 2011 (DefenestraTor) and CCS 2010 (EWMA).
The script reads distribution functions that a shipped scenario lists, and no pixels:

- A panel is named by its page and by the left upper corner of its axes' frame [points of 1/72 inch]. R drew most panels
  of DefenestraTor without a frame. The corner of these is the left end of the y axis's ticks, and the top of this axis.
- A curve is a path with a colour, a dash pattern and more than two points. If a frame has several paths of a style, for
  example because of an inset, the curve is the path with the left and right ends nearest to those of the frame.
- An axis is a straight line through its labelled ticks, in the values or in their logarithms, whichever fits.
- Only the part of a path within the frame counts. Interpolation is linear on the page, so logarithmic on such an axis.

A row is a point of a distribution function: `share` is the cumulative fraction, and `value` the number on the x axis in
SI units. A curve has both of its visible ends, points at the shares of SHARES, and points at the edges of 20 columns.
"""

import argparse
import csv
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pdfplumber

Point = tuple[float, float]
Style = tuple[tuple[float, ...], tuple[float, ...]]
"""Colour and dash pattern."""
Object = Any
"""A page, or an object on it: a rectangle, a path or a character. Coordinates [points] grow right and downwards."""
Axis = Callable[[float], float]
"""The value at a position on an axis."""

SHARES = (0.01, 0.02, *(each / 20 for each in range(1, 20)), 0.98, 0.99)
COLUMNS = 20
"""The columns of a panel, which add points to the flat parts of a curve."""

MINUS = "\N{MINUS SIGN}"
MS, MIB = 1e-3, 2.0**20


class Curve(NamedTuple):
    """Columns of the file."""

    workload: str
    measure: str
    hop: str
    variant: str


class Panel(NamedTuple):
    """Where a panel is, and what it shows."""

    figure: str
    page: int
    corner: Point
    """Left and top of the frame."""
    curves: dict[Style, Curve]
    unit: float = 1.0
    """The figure's unit of the values, in the unit of the measure."""
    below: Point | None = None
    """The corner of the panel below, whose x axis is also this panel's; None if this panel has labels of its own."""


class Frame(NamedTuple):
    """The sides of a panel, from the outer ends of its ticks on."""

    x0: float
    x1: float
    top: float
    bottom: float


def of(names: dict[Style, str], workload: str, measure: str, hop: str = "") -> dict[Style, Curve]:
    """Curves of one measure with several variants."""
    return {style: Curve(workload, measure, hop, name) for style, name in names.items()}


def line(*dashes: float, colour: tuple[float, ...] = (0.0,)) -> Style:
    """The style of a line, which is black by default."""
    return colour, dashes


BLACK = line()

# --- KIST, drawn by matplotlib.

RED, BLUE = line(6, 6, colour=(1.0, 0.0, 0.0)), line(1, 3, colour=(0.0, 0.0, 1.0))
KIST_BOTH = {BLACK: "vanilla", RED: "kist"}
KIST_ALL = {BLACK: "vanilla", BLUE: "global", RED: "kist"}
CLIENTS = 13800
"""The clients of figure 8, which shows what all relays write."""


GUARDS = 1140
"""The guards that figure 11b leaves in the worst case, which we take as all candidates."""
KB = 1.024
"""The kB of a KiB."""


def stations(hop: str, variant: str = "vanilla") -> dict[Style, Curve]:
    """Curves of the waits at the three stations of a relay with vanilla Tor."""
    measures = {BLUE: "kernel_in_s", BLACK: "tor_s", RED: "kernel_out_s"}
    return {style: Curve("*", measure, hop, variant) for style, measure in measures.items()}


def of_priority(figure: str, left: float, sockets: str) -> list[Panel]:
    """The panels of the better and of the worse client in Shadow; round robin is drawn once for both."""
    return [
        Panel(
            figure, 8, (left, 87.8),
            of({BLACK: f"{sockets}-rr", style: sockets}, workload, "download_rate"), KB, (left, 136.9),
        )
        for workload, style in (("better", RED), ("worse", BLUE))
    ]  # fmt: skip


KIST = (
    Panel("3a", 6, (95.96, 87.75), stations("middle", "curiosity1"), MS),
    Panel("3b", 6, (250.4, 87.75), stations("middle", "curiosity2"), MS),
    Panel("3c", 6, (404.84, 87.75), stations("middle", "curiosity3"), MS),
    *of_priority("5b", 251.9, "shared"),
    *of_priority("5c", 406.4, "unshared"),
    Panel("4a", 7, (95.96, 87.75), stations("guard"), MS),
    Panel("4b", 7, (250.4, 87.75), stations("middle"), MS),
    Panel("4c", 7, (404.84, 87.75), stations("exit"), MS),
    Panel("6a", 11, (95.96, 87.75), of(KIST_ALL, "*", "kernel_out_s"), MS),
    Panel("6b", 11, (250.4, 87.75), of(KIST_ALL, "*", "tor_s"), MS),
    Panel("6c", 11, (404.84, 87.75), of(KIST_ALL, "*", "circuit_wait_s", "client"), MS),
    Panel("7a", 11, (97.5, 271.3), of(KIST_ALL, "*", "ttfb_s")),
    Panel("7a", 11, (156.2, 308.4), of(KIST_ALL, "*", "ttfb_s")),
    Panel("7b", 11, (251.9, 271.3), of(KIST_ALL, "web", "ttlb_s")),
    Panel("7c", 11, (406.4, 271.3), of(KIST_ALL, "bulk", "ttlb_s")),
    Panel("8", 12, (129.4, 77.9), of(KIST_ALL, "*", "written_per_client"), MIB / CLIENTS),
    Panel("10a", 13, (149.2, 99.2), of(KIST_BOTH, "ping", "attack_error_s", "latency"), MS),
    Panel("10b", 13, (340.4, 99.2), of(KIST_BOTH, "ping", "attack_pings", "latency")),
    Panel("11a", 14, (149.2, 99.2), of(KIST_BOTH, "bulk", "attack_score", "bulk")),
    Panel("11b", 14, (340.4, 99.2), of(KIST_BOTH, "bulk", "attack_remaining_share", "bulk"), 1 / GUARDS),
)

# The report UMN 14-012 has the appendices of the KIST paper: twice as many clients.
KIST_DOUBLE = (
    Panel("A2", 4, (360.6, 79.2), of(KIST_BOTH, "*", "written_per_client"), MIB / (2 * CLIENTS)),
    Panel("A3a", 5, (96.0, 87.8), of(KIST_BOTH, "*", "kernel_out_s"), MS),
    Panel("A3b", 5, (250.4, 87.8), of(KIST_BOTH, "*", "tor_s"), MS),
    Panel("A3c", 5, (404.8, 87.8), of(KIST_BOTH, "*", "circuit_wait_s", "client"), MS),
    Panel("A4a", 5, (97.5, 271.0), of(KIST_BOTH, "*", "ttfb_s")),
    Panel("A4b", 5, (251.9, 271.0), of(KIST_BOTH, "web", "ttlb_s")),
    Panel("A4c", 5, (406.4, 271.0), of(KIST_BOTH, "bulk", "ttlb_s")),
)

# --- Throttling, drawn by matplotlib.

THROTTLES = {
    BLACK: "vanilla",
    RED: "static",
    line(3, 5, 1, 5, colour=(0.0, 0.0, 1.0)): "split",
    line(1, 3, colour=(0.0, 0.5, 0.0)): "flag",
    line(colour=(0.7,)): "threshold",
}
LOADS = {"-light": ("abc", 97.5, 86.6), "-medium": ("def", 97.5, 218.33), "-heavy": ("ghi", 96.26, 350.07)}
"""The letters of figure 3's panels for each load, and the corner of the first one."""
TIMES = (("web", "ttfb_s"), ("web", "ttlb_s"), ("bulk", "ttlb_s"))

THROTTLING = (
    *(
        Panel(
            f"3{letters[column]}",
            8,
            (left + 154.44 * column, top),
            of({style: name + load for style, name in THROTTLES.items()}, *measured),
        )
        for load, (letters, left, top) in LOADS.items()
        for column, measured in enumerate(TIMES)
    ),
    Panel("4b", 10, (251.95, 86.6), of(THROTTLES, "bulk", "attack_entropy_lost", "throughput")),
    Panel("4c", 10, (406.4, 86.6), of(THROTTLES, "flooded", "attack_entropy_lost", "throttle-rate")),
)

# --- DefenestraTor, drawn by R.

R_WIDTH = 137.2
"""The width of a panel of R from the ticks of its y axis on [points]."""
LEFT, RIGHT = (166.12, 330.96), (164.59, 329.43)
"""The ticks of the left and of the right panel, in the two layouts of a row."""

DASHED, DOTTED = line(24.3155, 40.5259), line(0, 32.4207)
GREY, DASHED_GREY = line(colour=(0.701172,)), line(24.3155, 40.5259, colour=(0.701172,))

WINDOWS = {BLACK: "stock", DASHED: "50KiB", GREY: "dynamic"}
PRIORITIES = {style: f"{name}-ewma" for style, name in WINDOWS.items()}
CREDITS = {
    BLACK: "stock",
    DASHED: "n23-100-10",
    GREY: "n23-100-20",
    DASHED_GREY: "n23-70-20",
    DOTTED: "n23-adaptive",
}
FAST_CREDITS = {BLACK: "stock", DASHED: "n23-500-20", GREY: "n23-100-20", DASHED_GREY: "n23-adaptive"}
BOTH = {BLACK: "stock-ewma", DASHED: "n23-100-20", GREY: "n23-100-20-ewma"}
LARGER = {BLACK: "stock", DASHED: "50KiB", GREY: "dynamic", DASHED_GREY: "n23-adaptive"}

WEB = (("a", "web", "ttfb_s"), ("b", "web", "ttlb_s"))
BULK = (("c", "bulk", "ttfb_s"), ("d", "bulk", "ttlb_s"))
DOWNLOADS = (("a", "web", "ttlb_s"), ("b", "bulk", "ttlb_s"))


def row(
    figure: str, page: int, top: float, lefts: Point, names: dict[Style, str], *measured: tuple[str, str, str]
) -> list[Panel]:
    """Panels beside each other. Each item of `measured` has the letter, the workload and the measure of a panel."""
    return [
        Panel(figure + letter, page, (left, top), of(names, workload, measure))
        for left, (letter, workload, measure) in zip(lefts, measured, strict=True)
    ]


DEFENESTRATOR = (
    *row("5", 10, 141.1, LEFT, WINDOWS, *WEB),
    *row("5", 10, 302.7, RIGHT, WINDOWS, *BULK),
    *row("7", 11, 141.1, RIGHT, WINDOWS, *DOWNLOADS),
    *row("8", 11, 322.28, RIGHT, FAST_CREDITS, *DOWNLOADS),
    *row("10", 13, 141.1, LEFT, CREDITS, *WEB),
    *row("10", 13, 302.7, LEFT, CREDITS, *BULK),
    *row("11", 14, 141.1, RIGHT, LARGER, *WEB),
    *row("12", 19, 141.1, LEFT, PRIORITIES, *WEB),
    *row("12", 19, 302.7, RIGHT, PRIORITIES, *BULK),
    *row("13", 20, 357.06, LEFT, BOTH, *WEB),
    *row("13", 20, 518.65, RIGHT, BOTH, *BULK),
)

# --- EWMA, drawn by gnuplot. No scenario has figures 7 to 9 and 14, which show live relays.

DASHES = line(10, 10, 10, 30)
SMALL = {BLACK: "all", DASHES: "off"}
MIDDLE = {BLACK: "middle", DASHES: "off"}
PROCESSOR = {line(20, 10): "off", BLACK: "list", line(5, 7.5): "heap"}
HALF_LIVES = {
    BLACK: "off",
    line(20, 10): "1.5s",
    line(10, 15): "3s",
    line(5, 7.5): "4.5s",
    line(30, 10, 5, 10): "10s",
    line(15, 15, 5, 15): "20s",
    DASHES: "33s",
    line(5, 10, 30, 10, 5, 10): "66s",
    line(10, 10, 10, 10, 10, 10, 10, 20): "99s",
}

EWMA = (
    Panel("2", 3, (349.7, 60.0), of(SMALL, "web", "ttlb_s")),
    Panel("3", 4, (86.7, 60.0), of(SMALL, "small", "ttlb_s")),
    Panel("10", 6, (349.7, 60.0), of(MIDDLE, "bulk", "ttlb_s")),
    Panel("11", 7, (349.7, 60.0), of(PROCESSOR, "file", "ttlb_s")),
    Panel("12", 8, (90.1, 60.0), of(HALF_LIVES, "small", "ttlb_s")),
)

PAPERS = {
    "kist": (KIST, KIST_DOUBLE),
    "throttling": (THROTTLING,),
    "defenestrator": (DEFENESTRATOR,),
    "ewma": (EWMA,),
}
"""The panels in each PDF of a paper."""


def frame_of(page: Object, corner: Point) -> Frame:
    """The frame at a corner; without one, that around a panel of R and the ticks of its axes."""
    for rect in sorted(page.rects, key=lambda rect: float(rect["height"])):
        if math.dist((rect["x0"], rect["top"]), corner) < 0.2:
            left = [each["x0"] for each in page.lines if abs(each["x1"] - rect["x0"]) < 0.05 and each["width"] < 4]
            down = [each["bottom"] for each in page.lines if abs(each["top"] - rect["bottom"]) < 0.05]
            return Frame(min(left, default=rect["x0"]), rect["x1"], rect["top"], max(down, default=rect["bottom"]))
    left, top = corner
    ticks = [
        each["bottom"]
        for each in page.lines
        if left < each["x0"] == each["x1"] < left + R_WIDTH and 2 < each["height"] < 4 and 95 < each["top"] - top < 115
    ]
    return Frame(left, left + R_WIDTH, top - 0.2, max(ticks))


def x_axis(page: Object, frame: Frame) -> Axis:
    """The x axis of a frame, by the labels below its major ticks."""
    places = major(
        [
            (each["x0"], each["height"])
            for each in page.lines
            if abs(each["bottom"] - frame.bottom) < 0.05 and 0 < each["height"] < 5
            if frame.x0 - 0.05 < each["x0"] < frame.x1 + 0.05
        ]
    )
    labels: dict[float, list[Object]] = {}
    for char in page.chars:
        if 1 < char["top"] - frame.bottom < 9.5 and char["upright"] and is_digit(char):
            assign(labels, places, char, (char["x0"] + char["x1"]) / 2, 9)
    return scale({tick: number(label) for tick, label in labels.items()})


def y_axis(page: Object, frame: Frame) -> Axis:
    """The y axis of a frame, by the labels at the left of its major ticks. R's labels run upwards."""
    places = major(
        [
            (each["top"], each["width"])
            for each in page.lines
            if abs(each["x0"] - frame.x0) < 0.05 and 0 < each["width"] < 5
            if frame.top - 0.1 < each["top"] < frame.bottom + 0.05
        ]
    )
    labels: dict[float, list[Object]] = {}
    for char in page.chars:
        if is_digit(char) and frame.x0 - 14 < char["x0"] < char["x1"] < frame.x0:
            place = {"x0": char["x0"] if char["upright"] else -char["top"], "text": char["text"]}
            size = char["size"] if char["upright"] else 1
            assign(
                labels, places, place | {"size": size}, (char["top"] + char["bottom"]) / 2, 3 if char["upright"] else 7
            )
    return scale({tick: number(label) for tick, label in labels.items()})


def major(ticks: list[Point]) -> list[float]:
    """The places of the longest ticks. Each tick has a place and a length."""
    longest = max(length for _, length in ticks)
    return sorted({place for place, length in ticks if length > 0.9 * longest})


def is_digit(char: Object) -> bool:
    """Whether a character can be part of a number. A white one is the label of an axis that is not to be seen."""
    return char["text"] in "0123456789." + MINUS and char["non_stroking_color"] != (1.0,)


def assign(labels: dict[float, list[Object]], ticks: list[float], char: Object, middle: float, most: float) -> None:
    """Add a character to the label of the nearest tick, if its middle is near enough."""
    tick = min(ticks, key=lambda place: abs(place - middle))
    if abs(tick - middle) < most:
        labels.setdefault(tick, []).append(char)


def number(label: list[Object]) -> float:
    """The number that the characters of a label write. Smaller characters are an exponent."""
    size = max(char["size"] for char in label)
    parts = ["", ""]
    for char in sorted(label, key=lambda char: char["x0"]):
        parts[char["size"] < 0.9 * size] += char["text"].replace(MINUS, "-")
    return math.pow(float(parts[0]), float(parts[1] or 1))


def scale(labels: dict[float, float]) -> Axis:
    """The straight line from the first to the last tick, if no tick is more than 0.2 points away from it."""
    start, end = min(labels), max(labels)
    functions: list[tuple[Callable[[float], float], Callable[[float], float]]] = [(float, float)]
    if min(labels.values()) > 0:
        functions.append((math.log, math.exp))
    for there, back in functions:
        low, high = there(labels[start]), there(labels[end])
        slope = (high - low) / (end - start)
        if all(abs(start + (there(value) - low) / slope - tick) < 0.2 for tick, value in labels.items()):
            return lambda place: float(back(low + slope * (place - start)))
    raise SystemExit(f"no axis fits the labels {labels}")


def style_of(path: Object) -> Style:
    """The colour and the dash pattern of a path on a page."""
    colour, dash = path["stroking_color"], path["dash"]
    return colour if isinstance(colour, tuple) else (colour,), tuple(dash[0]) if dash else ()


def path_of(page: Object, frame: Frame, style: Style) -> list[Point]:
    """The path of a style that has its left and right ends nearest to those of the frame."""
    found = [
        path
        for path in page.curves
        if style_of(path) == style and path["stroke"] and not path["fill"] and len(path["pts"]) > 2
        if path["x0"] < frame.x1 and path["x1"] > frame.x0 and path["top"] < frame.bottom and path["bottom"] > frame.top
    ]
    best = min(found, key=lambda path: abs(path["x0"] - frame.x0) + abs(path["x1"] - frame.x1))
    points: list[Point] = best["pts"]
    return points


def reach(points: list[Point], coordinate: int, level: float) -> list[Point]:
    """The first point where a coordinate reaches a level from below; none if it never does."""
    for start, end in pairwise(points):
        if start[coordinate] <= level <= end[coordinate] and start[coordinate] < end[coordinate]:
            part = (level - start[coordinate]) / (end[coordinate] - start[coordinate])
            return [(start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))]
    return []


def read(page: Object, panel: Panel, style: Style) -> list[Point]:
    """The share and the value of each point of a curve, as far as the frame has them."""
    frame = frame_of(page, panel.corner)
    x, y = x_axis(page, frame_of(page, panel.below) if panel.below else frame), y_axis(page, frame)
    bottom, top = y(frame.bottom), y(frame.top)
    path = [(place, y(height)) for place, height in path_of(page, frame, style)]
    edges = [frame.x0 + (frame.x1 - frame.x0) * each / COLUMNS for each in range(COLUMNS + 1)]
    found = [point for edge in edges for point in reach(path, 0, edge)]
    found += [point for share in (bottom, *SHARES, top) for point in reach(path, 1, share)]
    seen = [
        point
        for point in (path[0], *found, path[-1])
        if frame.x0 - 0.001 < point[0] < frame.x1 + 0.001 and bottom - 1e-5 < point[1] < top + 1e-5
    ]
    return sorted((share, x(place) * panel.unit) for place, share in seen)


def rows(panels: tuple[Panel, ...], pdf: Path) -> list[tuple[str, ...]]:
    """The rows of the file. An inset, a later panel with the same curves, adds the points above their last share."""
    curves: dict[tuple[str, ...], list[Point]] = {}
    with pdfplumber.open(pdf) as document:
        for panel in panels:
            for style, curve in panel.curves.items():
                known = curves.setdefault((panel.figure, *curve), [])
                points = read(document.pages[panel.page - 1], panel, style)
                known += [point for point in points if not known or point[0] > known[-1][0]]
    found = [
        (*key, f"{round(share, 4):g}", f"{value:.4g}") for key, points in curves.items() for share, value in points
    ]
    return list(dict.fromkeys(found))


def main() -> None:
    """Write the curves of a paper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("pdf", type=Path, nargs="+", help="the paper, and for KIST its appendices")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")
    asked = parser.parse_args()
    documents = PAPERS[asked.paper]
    if len(asked.pdf) != len(documents):
        parser.error(f"{asked.paper} needs {len(documents)} PDF files")
    found = [row for panels, pdf in zip(documents, asked.pdf, strict=True) for row in rows(panels, pdf)]
    with asked.output.open("w", newline="") if asked.output else sys.stdout as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["figure", *Curve._fields, "share", "value"])
        table.writerows(found)


if __name__ == "__main__":
    main()
