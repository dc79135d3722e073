"""`penstock play`: a page that runs a small scenario again whenever a slider moves, and a page of runs made before."""

import json
import re
import shlex
import tempfile
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

from penstock import catalog, runs, summary
from penstock._core import Document
from penstock.errors import Cancelled, PenstockError, ScenarioError
from penstock.explorer import server, views
from penstock.grid import Grid
from penstock.result import Result

LONGEST_S = 20.0
"""The longest estimated processor time of a position of the sliders [s]."""
KEPT = 64 << 20
"""The memory for compressed results of earlier positions [B]. The newest result is kept in any case."""
MAX_POSITIONS = 60
"""The maximum number of positions of a saved page."""

USUAL = (
    "relay.edge_control.circuit_window=100,150,200,300,500,700,1000",
    "network.rtt=20 ms,40 ms,80 ms,160 ms,320 ms",
    "tcp.send_buffer=16 KiB,32 KiB,64 KiB,128 KiB,256 KiB",
)
"""The sliders without `--param`, if they have an effect in the scenario."""

AS_GIVEN = "as in the scenario"
"""The first position of each slider."""


@dataclass(frozen=True)
class Slider:
    """A key, or several keys with the same value, and the values that the slider offers."""

    keys: tuple[str, ...]
    values: tuple[str, ...]

    def sets(self, position: int) -> list[str]:
        """The overrides at a position. Position 0 is the scenario's own value."""
        return [f"{key}={self.values[position - 1]}" for key in self.keys] if position else []


class Player:
    """A scenario with sliders."""

    def __init__(
        self, scenario: str, params: Sequence[str], variants: Sequence[str], sets: Sequence[str], seed: int | None
    ) -> None:
        """Check the scenario at its own values and at each value of each slider.

        Raises:
            ScenarioError: if a value is wrong, or if a run would take too long.
        """
        self._scenario, self._variants, self._sets = scenario, tuple(variants), tuple(sets)
        self.name, document = self._document(())
        self._seed = runs.plan(document, variants, seed, None)[0].seed
        known = [name for name, _ in document.variants()]
        if (count := len(variants or known)) > views.MAX_SERIES:
            raise ScenarioError(
                f"{self.name} has {count} variants, and a chart shows at most {views.MAX_SERIES}: select some with "
                "--variant"
            )
        self._head = document.head()
        self._workloads: list[str] = []
        self._refuse_long(document)
        self.sliders = self._named(params) if params else self._usual()
        if not self.sliders:
            raise ScenarioError(f"none of the usual keys has an effect in {self.name}; name a key with --param")
        self._variants = tuple(name for name in known if not variants or name in variants)
        self._newest = 0
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._share = 0.0
        self._made: dict[tuple[int, ...], bytes] = {}

    def page(self) -> server.Page:
        """The page of a server."""
        return server.Page(
            server.files("play.html", "play.js"),
            {"choices": lambda _: self.choices(), "progress": lambda _: {"share": self._share}},
            {"run": self._act},
        )

    def choices(self) -> dict[str, Any]:
        """The head of the page and its sliders."""
        return {
            "title": self._head["title"] or self.name,
            "scenario": self.name,
            "seed": self._seed,
            "metrics": [{"name": metric.column, "title": metric.title} for metric in summary.METRICS],
            "sliders": [
                {"key": " and ".join(slider.keys), "values": [AS_GIVEN, *slider.values]} for slider in self.sliders
            ],
        }

    def saved(self) -> dict[str, Any]:
        """The choices and the results at every position."""
        places = list(product(*(range(len(slider.values) + 1) for slider in self.sliders)))
        if len(places) > MAX_POSITIONS:
            raise ScenarioError(
                f"the sliders have {len(places)} positions, and a saved page at most {MAX_POSITIONS}; give fewer values"
            )
        return {**self.choices(), "runs": {",".join(map(str, place)): self.at(place) for place in places}}

    def at(self, positions: tuple[int, ...]) -> dict[str, Any]:
        """The results at these positions of the sliders. A later call ends an earlier one, which raises `Cancelled`."""
        mine = self._next()
        with self._running:
            self.refuse_old(mine)
            self._share = 0.0
            if positions not in self._made:
                found = self._run(positions, mine)
                self._made[positions] = zlib.compress(json.dumps(found, allow_nan=False).encode())
                while len(self._made) > 1 and sum(map(len, self._made.values())) > KEPT:
                    self._made.pop(next(iter(self._made)))
            found = json.loads(zlib.decompress(self._made[positions]))
            return dict(found)

    def stop(self) -> None:
        """End the current run, and wait until its files are removed."""
        self._next()
        with self._running:
            pass

    def refuse_old(self, mine: int) -> None:
        """Raise `Cancelled` if call number `mine` is not the newest one."""
        if self._newest != mine:
            raise Cancelled("a newer position of the sliders replaced this run")

    def _next(self) -> int:
        with self._lock:
            self._newest += 1
            return self._newest

    def _act(self, given: Any) -> dict[str, Any]:
        positions = given.get("positions") if isinstance(given, dict) else None
        if not isinstance(positions, list) or [type(place) for place in positions] != [int] * len(self.sliders):
            raise PenstockError("the request needs a position for each slider")
        for place, slider in zip(positions, self.sliders, strict=True):
            if not 0 <= place <= len(slider.values):
                raise PenstockError(f"the slider of {slider.keys[0]} has no position {place}")
        return self.at(tuple(positions))

    def _run(self, positions: tuple[int, ...], mine: int) -> dict[str, Any]:
        sets = self._sets_at(positions)
        self._refuse_long(self._document(sets)[1])
        with tempfile.TemporaryDirectory(prefix="penstock-play-") as folder:
            result = runs.run(
                self._scenario,
                variants=self._variants,
                sets=(*self._sets, *sets),
                seed=self._seed,
                runs=1,
                out=Path(folder) / "out",
                watch=_Following(self, mine),
            )
            words = [word for name in self._variants for word in ("--variant", name)] if self._some(result) else []
            words += [word for override in (*self._sets, *sets) for word in ("--set", override)]
            command = ["penstock", "run", self._scenario, *words, "--seed", str(self._seed), "--runs", "1"]
            return {"command": shlex.join(command), **_shown(result)}

    def _some(self, result: Result) -> bool:
        return len(result.variants) < len(result.scenario["variants"])

    def _sets_at(self, positions: Sequence[int]) -> list[str]:
        return [each for slider, place in zip(self.sliders, positions, strict=True) for each in slider.sets(place)]

    def _document(self, sets: Sequence[str]) -> tuple[str, Document]:
        return catalog.load(self._scenario, (*self._sets, *sets), None, self._variants)

    def _refuse_long(self, document: Document) -> None:
        names = [name for name, _ in document.variants() if not self._variants or name in self._variants]
        seconds = sum(document.estimate(name)["cpu_seconds"] for name in names)
        if seconds > LONGEST_S:
            raise ScenarioError(
                f"a run of {self.name} takes about {seconds:.0f} s, and sliders need less than {LONGEST_S:.0f} s: "
                "shorten it (--set run.duration=...), or select a --variant"
            )

    def _named(self, params: Sequence[str]) -> list[Slider]:
        sliders = [Slider(axis.keys, axis.values) for axis in Grid.of(params).axes]
        for slider in sliders:
            for place in range(1, len(slider.values) + 1):
                self._document(slider.sets(place))
        return sliders

    def _usual(self) -> list[Slider]:
        """The usual sliders that the scenario accepts, and whose keys have an effect in it."""
        _, path, text = catalog.read(self._scenario)
        before = set(self._document(())[1].warnings())
        found = []
        for slider in (Slider(axis.keys, axis.values) for axis in Grid.of(USUAL).axes):
            try:
                sets = (*self._sets, *slider.sets(1))
                document = Document.sweep(text, str(path), sets, self._variants, [("", ())])
            except PenstockError:
                continue
            if set(document.warnings()) <= before:
                found.append(slider)
        return found


class _Following:
    """Follows the progress of a run, and ends it if a newer one was asked for."""

    def __init__(self, player: Player, mine: int) -> None:
        self._player, self._mine = player, mine

    def update(self, finished: int, total: int, running: Mapping[str, float]) -> None:
        self._player._share = (finished + sum(running.values())) / total
        self._player.refuse_old(self._mine)


def _shown(result: Result) -> dict[str, Any]:
    """The distributions and medians of every workload, and the exit's queue of the largest traced workload."""
    of = views.Views(result)
    choices = of.choices()
    names = [each["name"] for each in choices["variants"]]
    times = {
        workload: {
            metric.column: of.downloads(
                server.Query({
                    "workload": [workload],
                    "metric": [metric.column],
                    "variant": names,
                    "percentile": ["50", "90"],
                })
            )
            for metric in summary.METRICS
        }
        for workload in choices["workloads"]
    }  # fmt: skip
    return {"times": times, "queue": _queue(result, names)}


def _queue(result: Result, names: Sequence[str]) -> dict[str, Any] | None:
    """The queue at the exit of the first traced circuit of the workload with the largest downloads, over time."""
    rows = result.circuits.filter(hop="exit")
    workloads = summary.workloads(result.transfers, rows)
    if not workloads:
        return None
    rows = rows.filter(workload=workloads[-1]).sort("t_s")
    shown = []
    for name in names:
        mine = rows.filter(variant=name)
        first = mine["circuit"].drop_nulls().min()
        shown.append((result.variants[name], mine.filter(circuit=first).cast({"queue_cells": float}), "queue_cells"))
    return {"workload": workloads[-1], **views.aligned(shown)}


_IMPORTS = re.compile(r"^import .*?;\n|^export ", flags=re.MULTILINE)


def save(player: Player, to: Path, write: Callable[[str, Path], Path]) -> Path:
    """Write a page that needs no server and no other file: its sliders choose among runs made before."""
    data = json.dumps(player.saved(), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    here = server.FILES
    page = (here / "play.html").read_text(encoding="utf-8")
    # One script instead of modules: a browser loads no modules from files.
    scripts = "".join(_IMPORTS.sub("", (here / name).read_text(encoding="utf-8")) for name in ("chart.js", "play.js"))
    licence = (here / "vendor/uPlot-LICENSE").read_text(encoding="utf-8")
    plain = f"/*!\n{licence}*/\n" + (here / "vendor/uPlot.iife.min.js").read_text(encoding="utf-8")
    styles = "".join((here / name).read_text(encoding="utf-8") for name in ("vendor/uPlot.min.css", "style.css"))
    head = (
        f'<title>{escape(player.choices()["title"])} - Penstock</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{styles}</style>\n<script>{plain}</script>\n"
        f'<script type="application/json" id="saved">{data}</script>\n<script type="module">{scripts}</script>\n'
    )
    before, _, rest = page.partition("<title>")
    return write(f"{before}{head}</head>{rest.partition('</head>')[2]}", to)
