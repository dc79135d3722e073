"""Runs scenarios on all cores, with a thread for each run. If one run fails or is stopped, all runs end."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from penstock import _core, catalog, estimates, fits, ray_runs
from penstock.costs import measured
from penstock.errors import Cancelled, OutputError, ScenarioError
from penstock.estimates import Confirm
from penstock.grid import Grid
from penstock.output import Job, Origin, OutputDir, finished_parts, missing
from penstock.overrides import Sets, typed
from penstock.progress import POLL_S, Watch
from penstock.ray_runs import Cluster, RayPool
from penstock.result import Result
from penstock.shards import Shard

LAST_SEED = 2**63 - 1
"""The largest integer of TOML."""

HOSTS_PER_THREAD = 100
"""With fewer hosts, a thread shortens a run by less than a third of its own processor time."""

GRACE_S = 0.5
"""The time for a stopped run to end before it is abandoned [s]."""


def run(
    scenario: str | Path,
    *,
    variants: Sequence[str] | None = None,
    sets: Sets = (),
    seed: int | None = None,
    runs: int | None = None,
    networks: int | None = None,
    replay: str | Path | None = None,
    replay_variant: str | None = None,
    network: str | Path | None = None,
    world: str = "sim",
    out: str | Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    shard: str | None = None,
    ray: str | Cluster | None = None,
    watch: Watch | None = None,
    confirm: Confirm | None = None,
) -> Result:
    """Run a scenario and return its output directory.

    Args:
        scenario: a file, or the name of a shipped scenario.
        variants: the variants to run; by default all.
        sets: overrides, `key=value` with TOML values, or a mapping of keys to values. They must fit the selected
            variants only.
        seed: the first seed; by default that of the scenario.
        runs: the number of seeds, from the first upwards.
        networks: the number of networks, each with every seed, from the scenario's first network or from 1 upwards. By
            default the scenario decides; otherwise each seed samples its own network.
        replay: an output directory of the same scenario. Clients repeat its requests at the same times, in an open
            loop.
        replay_variant: the variant of `replay`; by default the first.
        network: a network file; its relays and `[network]` replace those of the scenario.
        world: `sim`, or `testbed` for live relays on this machine over emulated links, in real time.
        out: the output directory; by default a new `runs/<scenario>-<n>`.
        jobs: the number of runs at the same time; by default one for each core, divided by `threads`.
        threads: the number of threads of each run. By default, the runs of large networks share the cores that have no
            run of their own. If all runs together would have more threads than cores, the number is reduced with a
            warning. The results do not depend on it.
        shard: `K/N` executes only this part of the runs, and needs `out`. `penstock.merge` merges all parts.
        ray: the address of a Ray cluster that executes the runs, or its connection; `local` starts Ray here. `jobs`
            then is the number of runs at the same time on this machine, and has no effect on other clusters.
        watch: receives progress reports.
        confirm: receives the estimated cost before the first run; an exception ends the command.

    Raises:
        ScenarioError: if the scenario or an argument is wrong.
        OutputError: if the directory is refused or a file cannot be written; finished runs are kept.
        Cancelled: on Ctrl-C; finished runs are kept.
    """
    sets = typed(sets)
    name, document = catalog.load(scenario, sets, network, tuple(variants or ()))
    todo = plan(document, variants, seed, runs, networks)
    part = _shard(shard, out)
    attacks = tuple(catalog.attacks(*catalog.read(scenario)[1:]))
    origin = Origin(name, document, sets, str(scenario), network=_typed(network), attacks=attacks, world=world)
    replays: Mapping[Job, _core.Replay] = {}
    if ray is not None and (world == "testbed" or replay is not None):
        raise ScenarioError("--ray has no --world testbed and no --replay; leave one of them out")
    if world == "testbed":
        if replay is not None or networks is not None or document.networks():
            raise ScenarioError("--world testbed has no replay, and each seed samples its own network")
        from penstock import testbed

        testbed.program()
        jobs = 1
    elif replay is not None:
        from penstock.replay import Record

        record = Record(replay, replay_variant)
        origin = dataclasses.replace(origin, replay=record.describe())
        replays = record.of(document, part.of(todo) if part else todo)
    elif replay_variant is not None:
        raise ScenarioError("--replay-variant selects a variant of --replay; add --replay DIR")
    return _run(origin, todo, out, jobs, threads, part, watch, replays, confirm, ray)


def sweep(
    scenario: str | Path,
    params: Sequence[str],
    *,
    variants: Sequence[str] | None = None,
    sets: Sets = (),
    seed: int | None = None,
    runs: int | None = None,
    network: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    shard: str | None = None,
    ray: str | Cluster | None = None,
    watch: Watch | None = None,
    confirm: Confirm | None = None,
) -> Result:
    """Run a scenario at every point of a grid and return the output directory, with the table of points.

    `params` is the grid, `key=value,value` for each key; these values replace those of `sets`. The other arguments and
    the errors are those of `run`.
    """
    sets = typed(sets)
    grid = Grid.of(params, variants or ())
    name, path, text = catalog.read(scenario)
    document = _core.Document.sweep(text, str(path), sets, grid.only, grid.sets(), catalog.network_file(network))
    catalog.warn(*document.warnings())
    origin = Origin(name, document, sets, str(scenario), grid.describe(), network=_typed(network))
    part = _shard(shard, out)
    result = _run(origin, plan(document, None, seed, runs), out, jobs, threads, part, watch, {}, confirm, ray)
    if part is None:
        from penstock import points

        points.write(result)
    return result


def _shard(text: str | None, out: str | Path | None) -> Shard | None:
    if text is not None and out is None:
        raise ScenarioError("--shard needs a directory of its own for each shard; add --out DIR")
    return None if text is None else Shard.parse(text)


def _typed(network: str | Path | None) -> str | None:
    return None if network is None else str(network)


def _run(
    origin: Origin,
    todo: Sequence[Job],
    out: str | Path | None,
    jobs: int | None,
    threads: int | None,
    shard: Shard | None,
    watch: Watch | None,
    replays: Mapping[Job, _core.Replay],
    confirm: Confirm | None,
    ray: str | Cluster | None,
) -> Result:
    for option, count in (("--jobs", jobs), ("--threads", threads)):
        if count is not None and count < 1:
            raise ScenarioError(f"{option} is {count}; it takes at least one")
    _refuse_threads(origin, jobs, threads, ray)
    cores = _core.cores() if ray is not None else fits.cores(origin.document)
    variants = {job.variant for job in todo}
    at_once = cores
    local = ray is not None and ray_runs.is_local(ray)
    if local and threads is not None and threads > cores:
        catalog.warn(f"--threads {threads} is reduced to {cores}, the number of cores")
        threads = cores
    if local or ray is None:
        at_once = fits.at_once(origin.document, variants, jobs, max(cores // (threads or 1), 1))
    with ray_runs.connected(ray, at_once * (threads or 1)) if ray is not None else nullcontext() as cluster:
        if cluster is not None:
            at_once = max(cluster.cores() // (threads or 1), 1)
            ray_runs.check(cluster, origin.document, variants, threads or 1)
            if jobs is not None and not local:
                catalog.warn("--jobs has no effect on a Ray cluster, which has the cores of its machines")
        if confirm:
            # A refusal must leave no directory.
            mine = shard.of(todo) if shard else todo
            confirm(estimates.of(origin.document, missing(mine, _finished(origin.document, out)), at_once))
        if out is None:
            output = OutputDir.fresh(origin, todo)
        else:
            output = OutputDir(Path(out), origin, todo, str(shard) if shard else None)
        todo = shard.of(todo) if shard else todo
        try:
            left = missing(todo, output.finished())
            if cluster is not None:
                pool: _RunPool | RayPool = RayPool(cluster, output, left, threads or 1)
            else:
                at_once = max(min(at_once, len(left)), 1)
                each = threads_of_each(origin.document, variants, threads, at_once, cores)
                if threads is not None and each < threads:
                    catalog.warn(
                        f"--threads {threads} is reduced to {each}, because {at_once} runs at the same time "
                        f"share {cores} cores"
                    )
                pool = _RunPool(output, left, at_once, each, replays)
            _finish(pool, output, len(todo) - len(left), watch)
        except KeyboardInterrupt:
            raise Cancelled(_stopped(output)) from None
        finally:
            output.close()
    return Result(output.path)


def _refuse_threads(origin: Origin, jobs: int | None, threads: int | None, ray: str | Cluster | None) -> None:
    """Refuse several threads for Python classes, which can share state, and which take turns anyway."""
    for key, name in origin.document.prototypes():
        what = f"{key} = {name} is a Python class"
        if origin.world == "testbed":
            raise ScenarioError(f"{what}, and live relays have no Python; leave --world testbed out")
        if threads is not None and threads > 1:
            raise ScenarioError(f"{what}, which runs in one thread; leave --threads out")
        if jobs is not None and jobs > 1 and ray is None:
            raise ScenarioError(f"{what}, which runs in one thread; leave --jobs out, or add --ray local for processes")


def cost(document: _core.Document, todo: Sequence[Job], out: Path | None, at_once: int) -> estimates.Cost:
    """The estimated cost of the runs of `todo` that are not finished in `out`."""
    return estimates.of(document, missing(todo, _finished(document, out)), at_once)


def _finished(document: _core.Document, out: str | Path | None) -> list[Job]:
    """The finished runs in the directory `out`."""
    names = [name for name, _ in document.variants()]
    try:
        return [Job.of(record) for record, _ in finished_parts(Path(out), names)] if out is not None else []
    except OutputError:
        # The directory is refused later, with its reason.
        return []


def plan(
    document: _core.Document,
    variants: Sequence[str] | None,
    seed: int | None,
    runs: int | None,
    networks: int | None = None,
) -> list[Job]:
    """The requested runs, seed by seed: all variants of a seed come together, so that pairs are complete early."""
    known = [name for name, _ in document.variants()]
    for name in variants or ():
        if name not in known:
            raise ScenarioError(f"there is no variant {name!r}; this scenario has {', '.join(known)}")
    for option, count in (("--runs", runs), ("--networks", networks)):
        if count is not None and count < 1:
            raise ScenarioError(f"{option} is {count}; it takes at least one")
    seeds = document.seeds()
    if seed is not None:
        seeds = _count(seed, runs or 1, "--seed")
    elif runs is not None:
        seeds = _count(seeds[0], runs, "the scenario's first seed")
    drawn = document.networks()
    if networks is not None:
        drawn = _count(drawn[0] if drawn else 1, networks, "the scenario's first network")
    chosen = [name for name in known if not variants or name in variants]
    return [Job(variant, network, each) for network in drawn or [-1] for each in seeds for variant in chosen]


def _count(first: int, count: int, which: str) -> list[int]:
    if not 0 <= first <= LAST_SEED - (count - 1):
        raise ScenarioError(f"{which} is {first}; seeds are whole numbers, and the last one at most 2^63 - 1")
    return list(range(first, first + count))


def threads_of_each(
    document: _core.Document, variants: Iterable[str], threads: int | None, at_once: int, cores: int
) -> int:
    """The number of threads of each of `at_once` runs: `threads`, or as many as have enough hosts.

    Each thread has a core of its own, because further threads only wait for each other.
    """
    if threads is None:
        threads = max(document.hosts(variant) for variant in variants) // HOSTS_PER_THREAD
    return max(min(threads, cores // at_once), 1)


def _finish(pool: "_RunPool | RayPool", output: OutputDir, already: int, watch: Watch | None) -> None:
    """Do the runs of a pool, then finish `output`. After an error, keep the finished runs."""
    try:
        pool.work(watch, already)
        if output.complete:
            output.merge()
    except BaseException:
        try:
            pool.stop()
        finally:
            output.keep()
        raise
    output.finish()


def _stopped(output: OutputDir) -> str:
    if Result(output.path).finished:
        return f"stopped, but all runs are finished; penstock report {output.path} shows them"
    asked = output.asked
    kept = len(asked) - len(output.missing())
    return (
        f"stopped: {kept} of {len(asked)} runs are finished and kept in {output.path}, "
        f"and the same command with --out {output.path} executes the others"
    )


class _RunPool:
    """A pool of threads for runs, with controls to stop them."""

    def __init__(
        self, output: OutputDir, jobs: Sequence[Job], at_once: int, threads: int, replays: Mapping[Job, _core.Replay]
    ) -> None:
        self._output = output
        self._replays = replays
        self._controls = {job: _core.Control(threads) for job in jobs}
        self._running: set[Job] = set()
        self._stopped = False
        self._pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="penstock")
        self._futures: set[Future[None]] = set()

    def work(self, watch: Watch | None, already: int) -> None:
        """Do all runs; the first error ends the pool."""
        self._futures = {self._pool.submit(self._one, job) for job in self._controls}
        total = already + len(self._futures)
        pending = self._futures
        while pending:
            done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            if watch is not None:
                shares = {job.folder: self._controls[job].progress()[1] for job in sorted(self._running.copy())}
                watch.update(total - len(pending), total, shares)
        self._pool.shutdown()

    def stop(self) -> None:
        """Stop unfinished runs and wait for them briefly."""
        self._stopped = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for control in self._controls.values():
            control.cancel()
        wait([future for future in self._futures if future.running()], timeout=GRACE_S)

    def _one(self, job: Job) -> None:
        if self._stopped:
            return
        self._running.add(job)
        try:
            part = self._output.begin(job)
            self._output.commit(job, measured(partial(self._execute, job, part), self._controls[job]))
        except BaseException:
            self._output.discard(job)
            raise
        finally:
            self._running.discard(job)

    def _execute(self, job: Job, part: Path) -> Mapping[str, Any]:
        origin = self._output.origin
        if origin.world == "testbed":
            from penstock import testbed

            return testbed.run(origin, job, part, lambda: self._stopped)
        control, replay = self._controls[job], self._replays.get(job)
        return {**_core.run(origin.document, job.variant, job.network_seed, job.seed, part, control, replay)}
