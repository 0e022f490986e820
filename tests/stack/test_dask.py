"""A portfolio, and the runs of a grid, on a real Dask cluster: a scheduler and two workers, which
are processes of this machine."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from distributed import Client

from cnc.errors import CncError
from cnc.planner import executors
from cnc.planner.algorithm import Budget, Result
from cnc.planner.executors import open_executor
from cnc.planner.greedy import NoWait
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.portfolio import Portfolio
from cnc.planner.problem import Problem
from cnc.testbed.experiments import grid
from tests.unit.test_planner_portfolio import a_problem

CHECKOUT = Path(__file__).parents[2]
START_TIMEOUT_S = 20
WAIT_TIMEOUT_S = 10


def wait_until(condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)
    return value


@dataclass
class Cluster:
    where: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self, pid: int) -> None:
        (worker,) = [worker for worker in self.workers if worker.pid == pid]
        worker.kill()


@contextmanager
def cluster(directory: Path, *, workers: int = 2, allowed_failures: int = 3) -> Iterator[Cluster]:
    """Processes that end with the block; `allowed_failures` workers may die of one call."""
    environment = os.environ | {
        "PYTHONPATH": str(CHECKOUT),  # where the algorithms of this file are
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
    }
    scheduler_file = directory / "scheduler.json"

    with ExitStack() as processes:

        def start(role: str, *options: str) -> subprocess.Popen[bytes]:
            log = processes.enter_context((directory / f"{role}.log").open("ab"))
            process = processes.enter_context(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", f"distributed.cli.dask_{role}"),
                        *("--scheduler-file", scheduler_file, "--no-dashboard", *options),
                    ],
                    cwd=directory,
                    env=environment,
                    stderr=log,
                )
            )
            processes.callback(process.kill)
            return process

        scheduler = start("scheduler", "--host", "tcp://127.0.0.1", "--port", "0")
        one = ("--nworkers", "1", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        address = wait_until(lambda: address_in(scheduler_file), START_TIMEOUT_S)
        started = [start("worker", *one) for _ in range(workers)]
        if workers:
            wait_for_workers(address, workers)
        yield Cluster(address.replace("tcp", "dask"), scheduler, started)


def address_in(scheduler_file: Path) -> str | None:
    """Where a scheduler is reached, None before it has written all of its file."""
    try:
        return json.loads(scheduler_file.read_text())["address"]
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def wait_for_workers(address: str, count: int) -> None:
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=START_TIMEOUT_S)


@dataclass
class Meets:
    """Goes on only when as many others run as there are to be, all at the same time."""

    directory: Path
    count: int
    name: str = "meets"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        (self.directory / f"{os.getpid()}.met").touch()
        wait_until(lambda: len(list(self.directory.glob("*.met"))) == self.count, WAIT_TIMEOUT_S)
        return Result(self.name, {})


@dataclass
class SleepsAtFirst:
    """Tells the first who runs it from the next; only the first sleeps, until it is killed."""

    directory: Path
    name: str = "sleeps at first"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        mine = self.directory / f"{os.getpid()}.tmp"
        mine.write_text(str(os.getpid()))
        try:
            os.link(mine, self.directory / "first")
        except FileExistsError:
            return NoWait().schedule(problem, budget)
        time.sleep(1000)
        raise AssertionError("nobody killed it")


def kill_the_first(directory: Path, running: Cluster) -> None:
    first = directory / "first"
    wait_until(first.exists, WAIT_TIMEOUT_S)
    running.kill_worker(int(first.read_text()))


@contextmanager
def meanwhile(action, *arguments) -> Iterator[None]:
    thread = Thread(target=action, args=arguments)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def plan_on(where: str, *algorithms) -> Result:
    with open_executor(where) as executor:
        return Portfolio(algorithms, executor).schedule(a_problem(), Budget())


def test_two_workers_at_once_come_to_the_result_of_one_process(tmp_path) -> None:
    algorithms = [Neighbourhood(paced=True, seed=0), Neighbourhood(paced=False, seed=0)]
    alone = Portfolio(algorithms).schedule(a_problem(), Budget())
    with cluster(tmp_path) as running:
        meets = Meets(tmp_path, 2)
        assert plan_on(running.where, meets, meets, *algorithms) == alone
        pids = {worker.pid for worker in running.workers}
    assert {int(path.stem) for path in tmp_path.glob("*.met")} == pids


def test_the_runs_of_a_grid_go_on_at_workers_and_their_files_come_back(tmp_path) -> None:
    file = CHECKOUT / "schedules/experiments/bound-check.yaml"
    # A run that needs no kernel to end: it finds that its streams have no plan.
    found = grid.points(file, ["frames=1,2", "streams.recipe.max-latency=40us"])
    with cluster(tmp_path) as running:
        place = grid.place_of(found, None, running.where.removeprefix("dask://"))
        measured = grid.Grid(file, tmp_path / "out", found, place).run()
    assert (measured.ended, measured.exit_code) == (2, 1)
    for point in found:
        log = (tmp_path / "out" / point.name / "measure.log").read_text()
        assert "cannot schedule every stream" in log
        assert (tmp_path / "out" / point.name / "experiment.yaml").exists()


def test_the_work_of_a_killed_worker_is_done_by_the_other(tmp_path) -> None:
    with cluster(tmp_path) as running, meanwhile(kill_the_first, tmp_path, running):
        result = plan_on(running.where, SleepsAtFirst(tmp_path))
    assert result == NoWait().schedule(a_problem(), Budget())


def test_a_call_that_kills_workers_is_given_up_with_an_error(tmp_path) -> None:
    with (
        cluster(tmp_path, allowed_failures=0) as running,
        meanwhile(kill_the_first, tmp_path, running),
        pytest.raises(CncError, match="workers died while running it") as lost,
    ):
        plan_on(running.where, SleepsAtFirst(tmp_path))
    assert "memory" in lost.value.hint


def test_a_scheduler_that_goes_away_is_an_error_and_soon(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(executors, "CONNECT_TIMEOUT_S", 1)
    client_log = logging.getLogger("distributed.client")
    monkeypatch.setattr(client_log, "handlers", [caplog.handler])
    client_log.setLevel(logging.WARNING)  # Dask's own

    def kill_the_scheduler() -> None:
        wait_until((tmp_path / "first").exists, WAIT_TIMEOUT_S)
        running.scheduler.kill()
        killed_s.append(time.monotonic())

    killed_s: list[float] = []
    with (
        cluster(tmp_path) as running,
        meanwhile(kill_the_scheduler),
        pytest.raises(CncError, match=f"'{running.where}': connection to the scheduler lost"),
    ):
        plan_on(running.where, SleepsAtFirst(tmp_path))
    assert time.monotonic() - killed_s[0] < WAIT_TIMEOUT_S
    assert caplog.records == []


def test_a_scheduler_without_workers_is_an_error_with_the_command_to_start_one(tmp_path) -> None:
    with (
        cluster(tmp_path, workers=0) as running,
        pytest.raises(CncError, match="has no workers") as refused,
        open_executor(running.where),
    ):
        pass
    assert refused.value.hint.endswith(f"dask worker {running.where.removeprefix('dask://')}")


def test_no_scheduler_is_an_error_and_soon(monkeypatch) -> None:
    monkeypatch.setattr(executors, "CONNECT_TIMEOUT_S", 1)
    begun_s = time.monotonic()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        where = f"dask://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CncError, match=f"'{where}'") as refused, open_executor(where):
            pass
    assert "dask scheduler" in refused.value.hint
    assert time.monotonic() - begun_s < WAIT_TIMEOUT_S
