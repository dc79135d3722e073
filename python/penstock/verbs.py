"""The verbs of the command `penstock`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock import _core, catalog
from penstock.errors import PenstockError, naming
from penstock.stopping import raised

app = typer.Typer(
    help="Congestion management for onion-routing networks, and the bench on which it is judged.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class What(StrEnum):
    """What `list` can list."""

    scenarios = "scenarios"
    papers = "papers"
    algorithms = "algorithms"
    presets = "presets"
    workloads = "workloads"
    networks = "networks"


class World(StrEnum):
    """Where a scenario can run."""

    sim = "sim"
    testbed = "testbed"


Scenario = Annotated[str, typer.Argument(help="A scenario file, or the name of a shipped one.", metavar="SCENARIO")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key, with a TOML value; may be repeated.", metavar="KEY=VALUE"),
]
Seed = Annotated[int | None, typer.Option(help="The first seed.", metavar="N")]
Runs = Annotated[int | None, typer.Option(help="How many seeds, from the first upwards.", metavar="N")]
Networks = Annotated[
    int | None,
    typer.Option(help="How many networks, each with every seed; by default each seed draws its own.", metavar="N"),
]
NetworkFile = Annotated[
    Path | None,
    typer.Option("--network", help="A network file: its relays take the place of the scenario's.", metavar="FILE"),
]
Out = Annotated[
    Path | None, typer.Option(help="Where to write; a fresh folder under runs/ if left out.", metavar="DIR")
]
Jobs = Annotated[int | None, typer.Option(help="Runs at the same time; one for each core if left out.", metavar="N")]
Report = Annotated[bool, typer.Option(help="Whether to draw pictures and write a report.")]


@app.command("list")
def list_(
    what: Annotated[What | None, typer.Argument(help="What to list; everything if left out, a line each.")] = None,
    name: Annotated[
        str | None, typer.Argument(help="Only this algorithm, or those of this key.", metavar="NAME")
    ] = None,
) -> None:
    """Say what there is; of algorithms also parameters, defaults, units, sources and partners."""
    from penstock import listing

    if what is not None:
        print("\n".join(listing.details(what, name)))
        return
    for each in What:
        print(f"{each}:")
        for line in listing.lines(each):
            print(f"  {line}")


@app.command()
def check(scenario: Scenario, sets: Sets = None, network: NetworkFile = None) -> None:
    """Parse a scenario and explain it; run nothing. What does not fit into this machine's memory ends with status 2."""
    from penstock import fits

    _, document = catalog.load(scenario, tuple(sets or ()), network)
    print(document.describe().rstrip())
    fits.at_once(document, [name for name, _ in document.variants()], None, 1)


@app.command()
def run(
    scenario: Scenario,
    variant: Annotated[
        list[str] | None, typer.Option(help="Run only this variant; may be repeated.", metavar="NAME")
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    runs: Runs = None,
    networks: Networks = None,
    network: NetworkFile = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Ask for the downloads of this earlier output, at its times, in an open loop.", metavar="DIR"
        ),
    ] = None,
    replay_variant: Annotated[
        str | None, typer.Option(help="Which variant of --replay; its first if left out.", metavar="NAME")
    ] = None,
    world: Annotated[World, typer.Option(help="Where to run it.")] = World.sim,
    out: Out = None,
    jobs: Jobs = None,
    report: Report = True,
) -> None:
    """Run every variant with every seed, then draw and report."""
    from penstock import runs as runner
    from penstock.progress import Shown

    with raised(), Shown(scenario) as watch:
        result = runner.run(
            scenario,
            variants=variant,
            sets=sets or (),
            seed=seed,
            runs=runs,
            networks=networks,
            replay=replay,
            replay_variant=replay_variant,
            network=network,
            world=world.value,
            out=out,
            jobs=jobs,
            watch=watch,
        )
    _tell(result.directory, report=report)


@app.command()
def sweep(
    scenario: Scenario,
    params: Annotated[
        list[str],
        typer.Option("--param", help="A key and its values; every combination is run.", metavar="KEY=VALUE,VALUE"),
    ],
    variant: Annotated[
        list[str] | None, typer.Option(help="Sweep only this variant; may be repeated.", metavar="NAME")
    ] = None,
    sets: Sets = None,
    seed: Seed = None,
    runs: Runs = None,
    network: NetworkFile = None,
    out: Out = None,
    jobs: Jobs = None,
    report: Report = True,
) -> None:
    """Run a scenario at every point of a grid, then draw and report."""
    from penstock import runs as runner
    from penstock.progress import Shown

    with raised(), Shown(scenario) as watch:
        result = runner.sweep(
            scenario,
            params,
            variants=variant,
            sets=sets or (),
            seed=seed,
            runs=runs,
            network=network,
            out=out,
            jobs=jobs,
            watch=watch,
        )
    _tell(result.directory, report=report)


@app.command()
def paper(
    name: Annotated[
        str, typer.Argument(help="A paper of `list papers`, or a folder with a claims.toml.", metavar="NAME")
    ],
    figure: Annotated[
        str | None,
        typer.Option(help="Only claims about this figure, such as 5a, or 5 for all of its parts.", metavar="ID"),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Do so much of each experiment: 0.1 is a tenth of the downloads.", metavar="S")
    ] = 1.0,
    runs: Annotated[int, typer.Option(help="The number of seeds, from each scenario's first seed.", metavar="N")] = 5,
    out: Out = None,
    jobs: Jobs = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Also write the table of claims into this file, in place of its old one.", metavar="FILE"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with status 1 if a claim with a gate was not shown to hold.")
    ] = False,
) -> None:
    """Run a paper's experiments, and check its claims one by one."""
    from penstock import generated
    from penstock.paper import runner, table
    from penstock.progress import Shown
    from penstock.report import write
    from penstock.tables import console

    with raised():
        outcome = runner.run(name, figure=figure, scale=scale, seeds=runs, out=out, jobs=jobs, watching=Shown)
    page = write(list(outcome.results.values()), outcome.directory / "report.html", outcome)
    outcome = runner.write(outcome)
    if markdown is not None:
        generated.write(markdown, f"penstock paper {outcome.claims.paper}", table.markdown(outcome), outcome.made)
    table.show(outcome, f"report:   {page}\nverdicts: {outcome.directory / runner.VERDICTS}", console())
    if strict and outcome.missed:
        raise typer.Exit(1)


@app.command("report")
def report_(
    directories: Annotated[list[Path], typer.Argument(help="Output directories.", metavar="DIR...")],
    to: Annotated[
        Path | None, typer.Option(help="The page; report.html in the directory if there is one.", metavar="FILE")
    ] = None,
) -> None:
    """Draw pictures of outputs and write an HTML page."""
    if len(directories) == 1:
        _tell(directories[0], to=to)
        return
    if to is None:
        raise PenstockError("a report of several directories needs a name: add --to FILE")
    from penstock.report import write
    from penstock.result import Result

    print(f"report: {write([Result(directory) for directory in directories], to)}")


@app.command()
def paths(
    consensus: Annotated[
        Path, typer.Argument(help="A consensus document, plain or with microdescriptors; also as .xz.", metavar="FILE")
    ],
    pairs: Annotated[
        int, typer.Option(help="How many pairs of circuits to draw.", metavar="N", min=1, max=2**63 - 1)
    ] = 10_000_000,
    seed: Annotated[int, typer.Option(help="The seed of all circuits.", metavar="N", min=0, max=2**63 - 1)] = 1,
) -> None:
    """Draw circuits as clients of a consensus do, and say what two of them share."""
    from penstock import paths as drawing
    from penstock.tables import console

    drawing.show(consensus, seed, drawing.sample(consensus, pairs, seed), console())


class Clock(StrEnum):
    """What the times of a comparison count from."""

    start = "start"
    request = "request"


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="An output, DIR or DIR:VARIANT, or what others measured.", metavar="A")],
    b: Annotated[str, typer.Argument(help="The other.", metavar="B")],
    workload: Annotated[
        list[str] | None, typer.Option(help="Of outputs of penstock, only this workload; may be repeated.")
    ] = None,
    clock: Annotated[
        Clock | None, typer.Option(help="What times count from; the start if both have it, else the request.")
    ] = None,
    skip: Annotated[
        float, typer.Option(help="Of what others measured, leave out the first so many seconds.", min=0)
    ] = 0.0,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; a fresh runs/compare-<n> if left out.", metavar="DIR")
    ] = None,
    report: Report = True,
) -> None:
    """Put downloads of two outputs side by side: ours, OnionPerf's, tornettools' or tgen's."""
    import shlex

    from penstock.compare import compare as put_together
    from penstock.compare import find, page, show
    from penstock.tables import console

    first, second = (find.read(spec, workloads=workload or (), skip=skip) for spec in (a, b))
    comparison = put_together(first, second, clock)
    footer = ""
    if report:
        directory = page.directory(out)
        words = ["penstock", "compare", a, b, *(word for name in workload or () for word in ("--workload", name))]
        words += (["--clock", clock] if clock else []) + (["--skip", f"{skip:g}"] if skip else [])
        footer = f"report: {page.write(comparison, directory, shlex.join(words))}"
    show.show(comparison, footer, console())


@app.command()
def workload(
    name: Annotated[str, typer.Argument(help="What the workload is called.", metavar="NAME")],
    packets: Annotated[Path, typer.Option(help="The model of a stream's packets.", metavar="FILE")],
    streams: Annotated[Path | None, typer.Option(help="That of a flow's streams.", metavar="FILE")] = None,
    flows: Annotated[Path | None, typer.Option(help="That of the flows.", metavar="FILE")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; shown if left out.", metavar="FILE")] = None,
) -> None:
    """Turn tgen's Markov models, which are GraphML, into a workload for a scenario."""
    from penstock import markov

    given = {"flows": flows, "streams": streams, "packets": packets}
    text = markov.workload(name, {kind: path for kind, path in given.items() if path is not None})
    _put(text, out)


@app.command()
def network(
    document: Annotated[
        Path | None,
        typer.Argument(
            help="A consensus, plain or with microdescriptors, or tornettools' relayinfo_staging; also as .xz.",
            metavar="[FILE]",
        ),
    ] = None,
    descriptors: Annotated[
        list[Path] | None,
        typer.Option(help="Server descriptors of a consensus' relays; may be repeated.", metavar="FILE"),
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="A graph in GML, as Shadow has it, for latency by country pair.", metavar="FILE")
    ] = None,
    relays: Annotated[
        int | None, typer.Option(help="How many relays; all if left out.", metavar="N", min=1, max=2**31 - 1)
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of what is drawn.", metavar="N", min=0, max=2**63 - 1)] = 1,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; standard output if left out.", metavar="FILE")
    ] = None,
) -> None:
    """Make a network file of what you have, for --network of check, run and sweep."""
    from penstock.networks import file

    text = file.make(document, descriptors=descriptors or (), graph=graph, relays=relays, seed=seed)
    _put(text, out)
    if out is not None:
        count = text.count("\n[relays.")
        print(f"network: {out}, {count} relays; penstock check SCENARIO --network {out} explains it")


@app.command()
def version() -> None:
    """Print the version."""
    print(f"penstock {_core.version()}")


def _put(text: str, out: Path | None) -> None:
    """Write a text into a file, or show it if none is named."""
    if out is None:
        print(text, end="")
        return
    with naming(out):
        out.write_text(text, encoding="utf-8")


def _tell(directory: Path, *, to: Path | None = None, report: bool = True) -> None:
    """Write the report of one directory and show its tables."""
    from penstock import tables
    from penstock.result import Result

    result = Result(directory)
    footer = f"tables:   {directory}"
    if report:
        from penstock.report import write

        page = write([result], to or directory / "report.html")
        pictures = ", ".join(path.name for path in sorted((directory / "figures").glob("*.png")))
        footer = f"report:   {page}\npictures: {directory / 'figures'} ({pictures or 'none'})"
    if not result.finished:
        asked = result.asked
        whole = len(asked["variants"]) * len(asked.get("networks", [""])) * len(asked["seeds"])
        there = f"{len(result.manifest['runs'])} of {whole} runs that were asked for are there"
        footer = f"{footer}\nunfinished: {there}; the rest: {result.command}"
    tables.show(result, footer, tables.console())
