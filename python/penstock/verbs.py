"""The subcommands of `penstock`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from penstock import catalog, completion, identity
from penstock.errors import PenstockError, naming
from penstock.stopping import raised
from penstock.terminal import printable

if TYPE_CHECKING:
    from penstock.result import Result

app = typer.Typer(
    help="Simulate congestion management in onion-routing networks, and compare the results.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


exports = typer.Typer(help="Write a scenario for another tool.", rich_markup_mode=None)
imports = typer.Typer(help="Read the results of another tool.", rich_markup_mode=None)
app.add_typer(exports, name="export")
app.add_typer(imports, name="import")

List = Literal["scenarios", "papers", "attacks", "algorithms", "presets", "workloads", "networks"]

Number, File, Folder, Name = (partial(typer.Option, metavar=word) for word in ("N", "FILE", "DIR", "NAME"))
"""Options with a value of this kind."""

Scenario = Annotated[
    str,
    typer.Argument(
        help="A scenario file, or the name of a shipped scenario.",
        metavar="SCENARIO",
        autocompletion=completion.of(catalog.shipped),
    ),
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Set a key to a TOML value; may be repeated.", metavar="KEY=VALUE")
]
Seed = Annotated[int | None, Number(help="The first seed.")]
Runs = Annotated[int | None, Number(help="The number of seeds, counted up from the first seed.")]
Networks = Annotated[
    int | None,
    Number(
        help="The number of networks; each network runs with every seed. By default each seed draws its own network."
    ),
]
NetworkFile = Annotated[
    Path | None, File("--network", help="A network file. Its relays replace the relays of the scenario.")
]
Out = Annotated[Path | None, Folder(help="The output directory; by default a new one in runs/.")]
Jobs = Annotated[int | None, Number(help="The number of runs at the same time; by default one for each core.")]
Threads = Annotated[
    int | None,
    Number(
        help="The number of threads of each run; by default the runs of large networks use idle cores. The results do"
        " not depend on it."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Begin runs of more than an hour without a question on the terminal.")
]
Report = Annotated[bool, typer.Option(help="Draw figures and write a report.")]
ShardOf = Annotated[
    str | None,
    typer.Option("--shard", help="Execute only part K of N of the runs, into a directory of its own.", metavar="K/N"),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Execute the runs on this Ray cluster. `local` starts Ray on this machine.", metavar="ADDRESS"
    ),
]
Port = Annotated[int, Number(help="The port on 127.0.0.1; by default a free one.", min=0, max=65535)]
Browser = Annotated[bool, typer.Option(help="Open the page in a browser of the desktop, if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Csv = Annotated[bool, typer.Option("--csv", help="Also write the tables as CSV files.")]


def _print_version(asked: bool) -> None:
    if asked:
        print(identity.one_line())
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("list")
def list_(
    kind: Annotated[
        List | None, typer.Argument(help="The kind of entries; by default all kinds, with one line each.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(help="Show only this algorithm, or the algorithms of this key.", metavar="NAME")
    ] = None,
    as_json: Json = False,
) -> None:
    """List scenarios, papers, attacks, algorithms, presets, workloads or networks."""
    from penstock import facts, listing

    if as_json:
        print(facts.text(facts.lists([kind] if kind else get_args(List), name)))
        return
    print(listing.text(kind, name))


@app.command()
def check(scenario: Scenario, sets: Sets = None, network: NetworkFile = None, as_json: Json = False) -> None:
    """Explain a scenario and estimate its time and memory, without running it."""
    from penstock import facts, fits

    name, document = catalog.load(scenario, tuple(sets or ()), network)
    print(facts.text(facts.scenario(name, document)) if as_json else printable(document.describe().rstrip()))
    fits.at_once(document, [name for name, _ in document.variants()], None, 1)


@app.command()
def show(
    scenario: Scenario,
    variant: Annotated[
        str | None, Name(help="Print this variant with every default filled in, instead of the scenario's file.")
    ] = None,
    out: Annotated[Path | None, File(help="The file to write; by default standard output.")] = None,
) -> None:
    """Print a scenario as one file, which you can edit and run."""
    from penstock import source

    if out is not None and out.exists():
        raise PenstockError(f"{out} exists, and may have your changes; name another file with --out")
    _put(source.text(scenario) if variant is None else source.resolved(scenario, variant), out)


@app.command()
def run(
    scenario: Scenario,
    variant: Annotated[list[str] | None, Name(help="Run only this variant; may be repeated.")] = None,
    sets: Sets = None,
    seed: Seed = None,
    runs: Runs = None,
    networks: Networks = None,
    network: NetworkFile = None,
    replay: Annotated[
        Path | None, Folder(help="Repeat the requests of this earlier output at their original times.")
    ] = None,
    replay_variant: Annotated[
        str | None, Name(help="The variant whose requests --replay repeats; by default the first variant.")
    ] = None,
    world: Annotated[
        Literal["sim", "testbed"], typer.Option(help="The backend: the simulator, or live relays on this machine.")
    ] = "sim",
    out: Out = None,
    jobs: Jobs = None,
    threads: Threads = None,
    shard: ShardOf = None,
    ray: Ray = None,
    report: Report = True,
    csv: Csv = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run every variant with every seed, then draw figures and write a report."""
    from penstock import estimates
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
            world=world,
            out=out,
            jobs=jobs,
            threads=threads,
            shard=shard,
            ray=ray,
            watch=watch,
            confirm=estimates.stated(yes=yes),
        )
    _tell(result.directory, report=report and not shard, csv=csv and not shard, as_json=as_json)


@app.command()
def sweep(
    scenario: Scenario,
    params: Annotated[
        list[str],
        typer.Option(
            "--param", help="A key and its values. The sweep runs every combination.", metavar="KEY=VALUE,VALUE"
        ),
    ],
    variant: Annotated[list[str] | None, Name(help="Sweep only this variant; may be repeated.")] = None,
    sets: Sets = None,
    seed: Seed = None,
    runs: Runs = None,
    network: NetworkFile = None,
    out: Out = None,
    jobs: Jobs = None,
    threads: Threads = None,
    shard: ShardOf = None,
    ray: Ray = None,
    report: Report = True,
    csv: Csv = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run a scenario with every combination of parameter values, then draw figures and write a report."""
    from penstock import estimates
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
            threads=threads,
            shard=shard,
            ray=ray,
            watch=watch,
            confirm=estimates.stated(yes=yes),
        )
    _tell(result.directory, report=report and not shard, csv=csv and not shard, as_json=as_json)


@app.command()
def paper(
    name: Annotated[
        str,
        typer.Argument(
            help="A paper of `penstock list papers`, or a folder with a claims.toml.",
            metavar="NAME",
            autocompletion=completion.of(catalog.papers),
        ),
    ],
    figure: Annotated[
        str | None,
        typer.Option(help="Check only claims about this figure: 5a, or 5 for all parts of figure 5.", metavar="ID"),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="Check only claims that this scenario of the paper decides.", metavar="NAME")
    ] = None,
    variant: Annotated[
        list[str] | None,
        Name(help="Run only this variant, and check only claims between such variants; may be repeated."),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            help="The size of each experiment. With 0.1, it has a tenth of the downloads or of the duration after the"
            " warm-up.",
            metavar="S",
        ),
    ] = 1.0,
    sets: Sets = None,
    runs: Annotated[int, Number(help="The number of seeds, counted up from each scenario's first seed.")] = 5,
    out: Out = None,
    jobs: Jobs = None,
    ray: Ray = None,
    markdown: Annotated[
        Path | None,
        File(help="Also write the table of claims into this page. The table replaces the page's earlier one."),
    ] = None,
    tradeoffs: Annotated[
        Path | None,
        File(help="Also write the tables of trade-offs into this HTML page. Its reader can change the weights."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a claim with a bound fails or is undecided.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run a paper's experiments, and check its claims one by one."""
    from penstock import estimates, facts, generated
    from penstock.paper import claims, runner, table
    from penstock.progress import Shown
    from penstock.report import render_tradeoffs, save, write
    from penstock.tables import console

    with raised():
        confirm = estimates.stated(yes=yes)
        if tradeoffs is not None:
            runner.check_tradeoffs(name, figure, scenario)
        if markdown is not None:
            paper_name = claims.load(name).paper
            generated.around(markdown, runner.block(paper_name, scenario, variant or (), sets or ()))
        outcome = runner.run(
            name,
            figure=figure,
            scenario=scenario,
            variants=variant or (),
            scale=scale,
            sets=sets or (),
            seeds=runs,
            out=out,
            jobs=jobs,
            ray=ray,
            watching=Shown,
            confirm=confirm,
        )
    page = write(outcome.shown, outcome.directory / "report.html", outcome)
    outcome = runner.write(outcome)
    if markdown is not None:
        generated.write(markdown, outcome.block, table.markdown(outcome), outcome.made)
    if tradeoffs is not None:
        save(render_tradeoffs(outcome), tradeoffs)
    if as_json:
        print(facts.text({"directory": outcome.directory, "report": page, **runner.describe(outcome)}))
    else:
        table.show(outcome, f"report:   {page}\nverdicts: {outcome.directory / runner.VERDICTS}", console())
    if strict and outcome.missed:
        raise typer.Exit(1)


@app.command()
def attack(
    name: Annotated[
        str,
        typer.Argument(
            help="A scenario of `penstock list attacks`, or a scenario file with [[attacks]].",
            metavar="SCENARIO",
            autocompletion=completion.of(catalog.with_attacks),
        ),
    ],
    variant: Annotated[list[str] | None, Name(help="Run only this variant; may be repeated.")] = None,
    sets: Sets = None,
    runs: Runs = None,
    networks: Networks = None,
    network: NetworkFile = None,
    out: Out = None,
    jobs: Jobs = None,
    threads: Threads = None,
    shard: ShardOf = None,
    ray: Ray = None,
    markdown: Annotated[
        Path | None,
        File(help="Also write the table of leaks into this page. The table replaces the page's earlier one."),
    ] = None,
    report: Report = True,
    csv: Csv = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Run a scenario, and measure what an adversary learns about its clients."""
    from penstock import estimates, facts, generated
    from penstock.attacks import show, study
    from penstock.progress import Shown
    from penstock.tables import console

    with raised(), Shown(name) as watch:
        result = study.run(
            name,
            variants=variant,
            sets=sets or (),
            seeds=runs,
            networks=networks,
            network=network,
            out=out,
            jobs=jobs,
            threads=threads,
            shard=shard,
            ray=ray,
            watch=watch,
            confirm=estimates.stated(yes=yes),
        )
    if shard:
        _tell_shard(result)
        return
    found = study.write(result)
    page = None
    if report:
        from penstock.report import write

        page = write([result], result.directory / "report.html")
    if csv:
        from penstock import spreadsheet

        spreadsheet.write(result)
    if markdown is not None:
        generated.write(markdown, f"penstock attack {name}", show.markdown(found))
    if as_json:
        print(facts.text(show.facts(found, result, page)))
        return
    show.show(found, f"{'report' if page else 'tables'}: {page or result.directory}", console())


@app.command()
def leaks(
    directories: Annotated[
        list[Path], typer.Argument(help="Output directories of `penstock attack`.", metavar="DIR...")
    ],
    markdown: Annotated[
        Path | None, File(help="Write the table into this page, where it replaces the earlier one.")
    ] = None,
) -> None:
    """Compare attacks and mechanisms in one table: the bits that each adversary gains."""
    from penstock import generated
    from penstock.attacks import overview, study

    table = overview.markdown([study.read(directory) for directory in directories])
    if markdown is None:
        print(table)
        return
    generated.write(markdown, "penstock leaks", table)
    print(f"table: {markdown}")


@app.command()
def partition(
    name: Scenario,
    sets: Sets = None,
    switch: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The consensus activates the new flow control if at least this share of relays is upgraded.",
        ),
    ] = 0.8,
    markdown: Annotated[
        Path | None, File(help="Write the table into this page, where it replaces the earlier one.")
    ] = None,
) -> None:
    """Compute how far a partly deployed flow control narrows down the guards of its clients."""
    from penstock import generated
    from penstock.attacks import partition as model

    with raised():
        weights = model.weights_of(name, sets or ())
        table = model.markdown(model.rows(weights, switch), len(weights), switch)
    if markdown is None:
        print(table)
        return
    generated.write(markdown, f"penstock partition {name}", table)
    print(f"table: {markdown}")


@app.command("report")
def report_(
    directories: Annotated[list[Path], typer.Argument(help="Output directories.", metavar="DIR...")],
    to: Annotated[Path | None, File(help="The page to write; by default report.html in the directory.")] = None,
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Draw figures of outputs and write an HTML page."""
    if len(directories) == 1:
        _tell(directories[0], to=to, csv=csv, as_json=as_json)
        return
    if csv or as_json:
        raise PenstockError("--csv and --json are for the report of one directory; leave them out")
    if to is None:
        raise PenstockError("a report of several directories needs a file name; add --to FILE")
    from penstock.report import write
    from penstock.result import Result

    print(f"report: {write([Result(directory) for directory in directories], to)}")


@app.command()
def explain(
    what: Annotated[str, typer.Argument(help="An output directory, or a short scenario.", metavar="DIR|SCENARIO")],
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Name the limit that binds, its relays, and the algorithms that can act there."""
    from penstock import explain as explaining
    from penstock import facts
    from penstock.tables import console

    with raised():
        found = explaining.find_in(what, sets or ())
    if as_json:
        print(facts.text({"variants": explaining.described(found)}))
    else:
        explaining.show(found, console())


@app.command("open")
def open_(
    directory: Annotated[Path, typer.Argument(help="An output directory.", metavar="DIR")],
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Explore an output in a browser: distributions, relays, queues, and single cells."""
    from penstock.explorer import server, views
    from penstock.result import Result

    page = server.Page(server.files("open.html", "open.js"), views.Views(Result(directory)).asks)
    server.serve(page, port, "explorer", browser=browser)


@app.command()
def play(
    scenario: Scenario,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", help="A key and the values of its slider; may be repeated.", metavar="KEY=VALUE,VALUE"),
    ] = None,
    variant: Annotated[list[str] | None, Name(help="Run only this variant; may be repeated.")] = None,
    sets: Sets = None,
    seed: Annotated[int | None, Number(help="The seed; by default the scenario's first seed.")] = None,
    port: Port = 0,
    browser: Browser = True,
    save: Annotated[Path | None, File(help="Run every position now, and write one page that needs no server.")] = None,
) -> None:
    """Run a small scenario again in a browser whenever a slider moves."""
    from penstock.explorer import play as player
    from penstock.explorer import server
    from penstock.report import save as write

    made = player.Player(scenario, params or (), variant or (), sets or (), seed)
    if save is None:
        try:
            server.serve(made.page(), port, "player", browser=browser)
        finally:
            made.stop()
        return
    with raised():
        print(f"page: {player.save(made, save, write)}")


@app.command()
def merge(
    directories: Annotated[list[Path], typer.Argument(help="The directories of all shards.", metavar="DIR...")],
    out: Annotated[Path, Folder(help="The new output directory.")],
    report: Report = True,
    csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Merge the directories of all shards of a command into one output directory."""
    from penstock import shards

    _tell(shards.merge(directories, out).directory, report=report, csv=csv, as_json=as_json)


@app.command()
def paths(
    consensuses: Annotated[
        list[Path],
        typer.Argument(
            help="A consensus, plain or with microdescriptors, also as .xz; several in the order of their times, or a "
            "directory of them.",
            metavar="FILE...",
        ),
    ],
    pairs: Annotated[
        int | None, Number(help="The number of pairs of circuits to sample; by default 10000000.", min=1, max=2**63 - 1)
    ] = None,
    clients: Annotated[
        int | None, Number(help="Sample circuits of this number of clients over time.", min=1, max=1_000_000)
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(help="The time between two circuits of a client [s].", min=1, max=2**31 - 1, metavar="SECONDS"),
    ] = None,
    descriptors: Annotated[
        list[Path] | None,
        File(help="Server descriptors or microdescriptors, which have the families of relays; may be repeated."),
    ] = None,
    out: Annotated[Path | None, File(help="Write the circuits of clients as CSV.")] = None,
    seed: Annotated[int, Number(help="The seed of all circuits.", min=0, max=2**63 - 1)] = 1,
) -> None:
    """Draw circuits as Tor clients do: pairs through one consensus, or those of clients over several consensuses."""
    from penstock import path_history
    from penstock import paths as drawing
    from penstock.errors import PenstockError
    from penstock.tables import console

    of_clients = clients is not None or every is not None or out is not None
    if len(consensuses) > 1 or consensuses[0].is_dir() or of_clients:
        if pairs is not None:
            raise PenstockError(
                "--pairs samples pairs of circuits of one consensus; leave it out, or name one file without --clients, "
                "--every and --out"
            )
        found = path_history.ordered(consensuses)
        described = drawing.described(descriptors or ())
        outcome = path_history.sample(
            found,
            clients=clients or path_history.CLIENTS,
            every=every or path_history.EVERY,
            seed=seed,
            descriptors=described,
            out=out,
        )
        path_history.show(outcome, seed, out, console())
        return
    described = drawing.described(descriptors or ())
    drawing.show(
        consensuses[0], seed, drawing.sample(consensuses[0], pairs or drawing.PAIRS, seed, described), console()
    )


@app.command()
def compare(
    a: Annotated[
        str, typer.Argument(help="An output, DIR or DIR:VARIANT, or a measurement of another tool.", metavar="A")
    ],
    b: Annotated[str, typer.Argument(help="The second output or measurement.", metavar="B")],
    workload: Annotated[
        list[str] | None, typer.Option(help="Compare only this workload of a Penstock output; may be repeated.")
    ] = None,
    clock: Annotated[
        Literal["start", "request"] | None,
        typer.Option(
            help="The event from which times count; by default the start if both have it, otherwise the request."
        ),
    ] = None,
    skip: Annotated[
        float,
        typer.Option(
            help="Ignore another tool's downloads that began within this time after the first one [s].", min=0
        ),
    ] = 0.0,
    out: Annotated[Path | None, Folder(help="The output directory; by default a new runs/compare-<n>.")] = None,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Compare the downloads of two outputs of Penstock, OnionPerf, tornettools or tgen."""
    import shlex

    from penstock import facts
    from penstock.compare import compare as put_together
    from penstock.compare import find, page, show
    from penstock.tables import console

    first, second = (find.read(spec, workloads=workload or (), skip=skip) for spec in (a, b))
    comparison = put_together(first, second, clock)
    written = None
    footer = ""
    if out is not None and not report:
        page.write_tables(comparison, page.directory(out))
        footer = f"tables: {out}"
    if report:
        directory = page.directory(out)
        words = ["penstock", "compare", a, b, *(word for name in workload or () for word in ("--workload", name))]
        words += (["--clock", clock] if clock else []) + (["--skip", f"{skip:g}"] if skip else [])
        written = page.write(comparison, directory, shlex.join(words))
    if as_json:
        print(facts.text(facts.comparison(comparison, written)))
    else:
        show.show(comparison, f"report: {written}" if written else footer, console())


@app.command()
def workload(
    name: Annotated[str, typer.Argument(help="The name of the workload.", metavar="NAME")],
    packets: Annotated[Path, File(help="The model of the packets of a stream.")],
    streams: Annotated[Path | None, File(help="The model of the streams of a flow.")] = None,
    flows: Annotated[Path | None, File(help="The model of the flows.")] = None,
    out: Annotated[Path | None, File(help="The file to write; by default standard output.")] = None,
) -> None:
    """Convert Markov models of tgen (GraphML) into a workload of a scenario."""
    from penstock import markov

    given = {"flows": flows, "streams": streams, "packets": packets}
    text = markov.workload(name, {kind: path for kind, path in given.items() if path is not None})
    _put(text, out)


@app.command()
def network(
    document: Annotated[
        Path | None,
        typer.Argument(
            help="A consensus, plain or with microdescriptors, tornettools' relayinfo_staging, or hosts of Shadow 1.x; "
            "also as .xz.",
            metavar="[FILE]",
        ),
    ] = None,
    descriptors: Annotated[
        list[Path] | None,
        File(help="Server descriptors or microdescriptors of the consensus' relays; may be repeated."),
    ] = None,
    graph: Annotated[
        Path | None,
        File(help="A graph of Shadow, for the round trips between countries, or for places with delay and loss."),
    ] = None,
    clients: Annotated[
        Path | None, File(help="Other hosts of Shadow 1.x, for the places of clients and servers.")
    ] = None,
    circuits: Annotated[
        Path | None, File(help="A list of circuits: nstor's, or lines with the names of relays.")
    ] = None,
    places: Annotated[
        bool, typer.Option("--places", help="Make places of a graph even if its nodes have countries.")
    ] = False,
    relays: Annotated[int | None, Number(help="The number of relays; by default all.", min=1, max=2**31 - 1)] = None,
    seed: Annotated[int, Number(help="The seed of the random sample.", min=0, max=2**63 - 1)] = 1,
    out: Annotated[Path | None, File(help="The file to write; by default standard output.")] = None,
) -> None:
    """Convert a consensus, staged relays, hosts, circuits or a graph into a file for --network."""
    from penstock.networks import file

    text = file.make(
        document,
        descriptors=descriptors or (),
        graph=graph,
        clients=clients,
        circuits=circuits,
        places=places,
        relays=relays,
        seed=seed,
    )
    _put(text, out)
    if out is not None:
        count = text.count("\n[relays.")
        print(f"network: {out}, {count} relays; penstock check SCENARIO --network {out} explains it")


@exports.callback()
def _exports() -> None:
    pass


@exports.command("shadow")
def export_shadow(
    scenario: Scenario,
    out: Annotated[Path, Folder(help="The new directory, in which Shadow runs.")],
    variant: Annotated[str | None, Name(help="The variant; required if the scenario has several.")] = None,
    sets: Sets = None,
    seed: Annotated[
        int | None, Number(help="The seed of the network and of Shadow; by default the scenario's first seed.", min=0)
    ] = None,
    network: NetworkFile = None,
    tor: Annotated[str, typer.Option(help="C tor 0.4.9.", metavar="PROGRAM")] = "tor",
    gencert: Annotated[str, typer.Option(help="The program tor-gencert of C tor.", metavar="PROGRAM")] = "tor-gencert",
    tgen: Annotated[str, typer.Option(help="tgen, which Shadow starts.", metavar="PROGRAM")] = "tgen",
) -> None:
    """Write a variant as an experiment of Shadow 3 with C tor and tgen."""
    from penstock.shadow import export

    programs = export.Programs(tor, gencert, tgen)
    done = export.export(scenario, out, variant=variant, seed=seed, sets=sets or (), network=network, programs=programs)
    print(f"experiment: {done.directory}, {done.hosts} hosts, {done.stop_s} simulated seconds")
    for note in done.notes:
        print(f"note:       {printable(note)}")
    print(f"to run:     cd {done.directory} && shadow shadow.yaml > shadow.log")
    print(f"to read:    penstock import shadow {done.directory} --out DIR")


@exports.command("tornettools")
def export_tornettools(
    directory: Annotated[Path, typer.Argument(help="An output directory.", metavar="DIR")],
    out: Annotated[Path, Folder(help="The new directory, with a collection for each variant.")],
) -> None:
    """Write an output as plot data of tornettools."""
    from penstock.shadow import tornettools

    for path in tornettools.export(directory, out):
        print(f"collection: {path}")


@exports.command("onionperf")
def export_onionperf(
    directory: Annotated[Path, typer.Argument(help="An output directory.", metavar="DIR")],
    out: Annotated[Path, Folder(help="The new directory, with a folder for each variant.")],
) -> None:
    """Write an output as analyses of OnionPerf."""
    from penstock.shadow import onionperf

    for path in onionperf.export(directory, out):
        print(f"analyses:   {path}")


@imports.callback()
def _imports() -> None:
    pass


@imports.command("shadow")
def import_shadow(
    directories: Annotated[
        list[Path],
        typer.Argument(help="Exported directories in which Shadow has run, one for each run.", metavar="DIR..."),
    ],
    out: Annotated[Path, Folder(help="The new output directory.")],
    report: Report = False,
) -> None:
    """Turn finished runs of Shadow into an output directory."""
    from penstock.shadow import imported

    with raised():
        imported.read(directories, out)
    _tell(out, report=report)


@app.command("build")
def build_(
    crates: Annotated[
        list[Path],
        typer.Option("--with", help="The folder of a crate with algorithms; may be repeated.", metavar="PATH"),
    ],
    sources: Annotated[
        Path | None, Folder(help="A checkout of Penstock; by default the one that contains this command.")
    ] = None,
    release: Annotated[
        bool, typer.Option("--release", help="Optimise across crates: runs are faster, and the build takes longer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Link algorithms of other crates into an extension of Penstock."""
    from penstock import build, extension, facts

    built = build.build(crates, sources, release=release)
    if as_json:
        print(facts.text({**built._asdict(), "algorithms": [f"{key} = {name}" for key, name in built.algorithms]}))
        return
    print(f"version: {built.version}")
    for key, name in built.algorithms:
        print(f"adds:    {key} = {name}")
    print(f"to use:  export {extension.VARIABLE}={built.file}")


@app.command("version")
def version_(as_json: Json = False) -> None:
    """Print the version, the platform and the libraries."""
    print(identity.facts(as_json=as_json))


@app.command("completion")
def completion_(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.", metavar="SHELL")],
) -> None:
    """Print the script for completion in a shell."""
    print(completion.script(shell))


def _put(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    with naming(out):
        out.write_text(text, encoding="utf-8")


def _tell(
    directory: Path, *, to: Path | None = None, report: bool = True, csv: bool = False, as_json: bool = False
) -> None:
    from penstock import extras, facts, tables
    from penstock.result import Result

    result = Result(directory)
    if csv:
        from penstock import spreadsheet

        spreadsheet.write(result)
    page = None
    if report:
        from penstock.report import write

        page = write([result], to or directory / "report.html")
    if as_json:
        print(facts.text(facts.result(result, page)))
        return
    if "shard" in result.manifest and not report:
        _tell_shard(result)
        return
    footer = f"tables:   {directory}"
    if page:
        pictures = ", ".join(path.name for path in sorted((directory / "figures").glob("*.png")))
        footer = f"report:   {page}\npictures: {directory / 'figures'} ({pictures or 'none'})"
        if not extras.has_plots():
            footer = f"report:   {page}\npictures: none; {extras.NO_FIGURES}"
    if not result.finished:
        asked = result.asked
        whole = len(asked["variants"]) * len(asked.get("networks", [""])) * len(asked["seeds"])
        there = f"{len(result.manifest['runs'])} of {whole} runs are finished"
        footer = f"{footer}\nunfinished: {there}; to run the rest: {result.command}"
    tables.show(result, footer, tables.console())


def _tell_shard(result: "Result") -> None:
    shard, count = result.manifest["shard"], len(result.manifest["runs"])
    print(f"shard:    {shard}, with {count} finished runs in {result.directory}")
    print("to merge: penstock merge DIR... --out DIR, with the directories of all shards")
