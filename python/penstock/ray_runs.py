"""Runs on a Ray cluster: each run is a task, with its threads and its memory as resources.

A task gets the resolved scenario of its variant, so a worker needs Penstock and no files of the user. If a worker dies,
Ray repeats its task on another worker, and no other run is lost.
"""

import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from penstock import _core, prototypes
from penstock.costs import measured
from penstock.errors import PenstockError, naming
from penstock.output import TABLES, Job, OutputDir
from penstock.overrides import quoted
from penstock.progress import POLL_S, Watch

LOCAL = "local"
"""The address that starts Ray on this machine."""

RETRIES = 3
"""The number of times that Ray repeats a task whose worker died."""

CONNECT_S = 5.0
"""The time limit for a connection to the cluster [s]."""


class Task(NamedTuple):
    """The work of one run, for any machine with the same version of Penstock."""

    version: str
    """The version of Penstock, with the packages of prototypes that the scenario selects."""
    scenario: str
    """The resolved scenario, with its variant."""
    job: Job
    threads: int


class Done(NamedTuple):
    """The result of a task."""

    costs: dict[str, Any]
    tables: dict[str, bytes]
    """The content of each file of the run."""
    error: str = ""
    """The sentence of an error; empty if the run is complete."""


class Cluster(NamedTuple):
    """A cluster to which this process is connected."""

    ray: Any
    """The module `ray`."""
    address: str

    def cores(self) -> int:
        """The number of cores of all machines."""
        return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)


def is_local(cluster: str | Cluster) -> bool:
    """Whether a cluster, or the one at an address, is started on this machine."""
    return (cluster.address if isinstance(cluster, Cluster) else cluster) == LOCAL


@contextmanager
def connected(to: str | Cluster, workers: int) -> Iterator[Cluster]:
    """The cluster at the address `to`; `local` starts a cluster with `workers` cores here. A cluster stays connected.

    Raises:
        PenstockError: if Ray is missing, or no cluster answers at the address.
    """
    if isinstance(to, Cluster):
        yield to
        return
    address = to
    try:
        import ray
    except ImportError:
        raise PenstockError("--ray needs Ray; install it with: pip install 'penstock[ray]'") from None
    if address.startswith("ray://"):
        raise PenstockError(f"--ray is {address}; give the address of the cluster's head instead, like HOST:6379")
    _check_address(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, num_cpus=workers, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_cluster(address, error) from None
    try:
        yield Cluster(ray, address)
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address `HOST:PORT` at which nothing listens; Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except OSError as error:
            raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> PenstockError:
    reason = str(error).strip().partition("\n")[0]
    return PenstockError(
        f"--ray {address}: there is no Ray cluster ({reason}); start one with ray start, and check RAY_AUTH_MODE"
    )


def check(cluster: Cluster, document: _core.Document, variants: Iterable[str], threads: int) -> None:
    """Refuse runs that no machine of the cluster can execute; Ray would wait for such a machine.

    Raises:
        PenstockError: if each machine has less memory than a run needs, or fewer cores than a run has threads.
    """
    alive = [node["Resources"] for node in cluster.ray.nodes() if node["Alive"]]
    largest = max((node.get("memory", 0.0) for node in alive), default=0.0)
    size, name = max((document.estimate(name)["peak_heap_bytes"], name) for name in variants)
    if size > largest:
        raise PenstockError(
            f"a run of {name} needs about {size / 1e9:.1f} GB and no machine of the cluster has more than "
            f"{largest / 1e9:.1f} GB for Ray: use a smaller network or a shorter run"
        )
    most = int(max((node.get("CPU", 0.0) for node in alive), default=0.0))
    if threads > most:
        raise PenstockError(f"--threads is {threads} and no machine of the cluster has more than {most} cores")


def execute(task: Task) -> Done:
    """Execute a run on a worker. Errors return as a sentence, because Ray cannot send each exception."""
    try:
        return _execute(task)
    except PenstockError as error:
        return Done({}, {}, str(error))
    except Exception as error:
        return Done({}, {}, f"the run of {task.job.folder} failed on {socket.gethostname()}: {error!r}")


def _execute(task: Task) -> Done:
    document = None
    mine = _core.version()
    if mine == prototypes.without(task.version):
        document = _core.Document(task.scenario, task.job.variant)
        mine = prototypes.version_with(prototypes.of(document))
    if document is None or mine != task.version:
        return Done({}, {}, f"a worker has Penstock {mine}, and this is {task.version}; install the same build")
    control = _core.Control(task.threads)
    job = task.job
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:

        def run() -> Mapping[str, Any]:
            return {**_core.run(document, job.variant, job.network_seed, job.seed, folder, control)}

        costs = measured(run, control)
        return Done(costs, {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())})


class RayPool:
    """Does runs as tasks of a cluster. The results do not depend on the cluster."""

    def __init__(self, cluster: Cluster, output: OutputDir, jobs: Sequence[Job], threads: int) -> None:
        """Submit all runs of `jobs`, each with this many `threads`."""
        self._ray = cluster.ray
        self._output = output
        document = output.origin.document
        labels = dict(document.variants())
        texts = {
            name: f"{document.resolved(name)}\n[[variants]]\nname = {quoted(name)}\nlabel = {quoted(labels[name])}\n"
            for name in dict.fromkeys(job.variant for job in jobs)
        }
        versions = {
            name: _version_of(text) if document.prototypes() else _core.version() for name, text in texts.items()
        }
        memory = {name: int(document.estimate(name)["peak_heap_bytes"]) for name in texts}
        remote: Callable[..., Any] = self._ray.remote(execute)
        self._running = {}
        for job in jobs:
            task = Task(versions[job.variant], texts[job.variant], job, threads)
            options = {"num_cpus": threads, "memory": memory[job.variant], "max_retries": RETRIES}
            self._running[remote.options(**options).remote(task)] = job  # type: ignore[attr-defined]

    def work(self, watch: Watch | None, already: int) -> None:
        """Collect all runs; the first error ends the pool."""
        total = already + len(self._running)
        while self._running:
            finished, _ = self._ray.wait(list(self._running), num_returns=1, timeout=POLL_S)
            for reference in finished:
                self._keep(self._running[reference], self._result(reference))
                del self._running[reference]
            if watch is not None:
                watch.update(total - len(self._running), total, {})

    def stop(self) -> None:
        """Cancel unfinished tasks."""
        for reference in self._running:
            # The cluster may have ended; the reason is the first error.
            with suppress(Exception):
                self._ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> Done:
        try:
            done: Done = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise PenstockError(f"a Ray worker cannot execute runs: {_last_line(error)}") from None
        except self._ray.exceptions.RayError as error:
            raise PenstockError(f"Ray lost a run more than {RETRIES} times: {_last_line(error)}") from None
        if done.error:
            raise PenstockError(done.error)
        return done

    def _keep(self, job: Job, done: Done) -> None:
        part = self._output.begin(job)
        try:
            for table in TABLES:
                path = part / f"{table}.parquet"
                with naming(path):
                    path.write_bytes(done.tables[path.name])
            self._output.commit(job, done.costs)
        except BaseException:
            self._output.discard(job)
            raise


def _version_of(scenario: str) -> str:
    """The version for a scenario with one variant, which may have fewer prototypes than the others."""
    return prototypes.version_with(prototypes.of(_core.Document(scenario, "")))


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]
