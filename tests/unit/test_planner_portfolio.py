"""Several algorithms side by side come to the plan that they come to one after the other."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial

import pytest

from cnc.errors import CncError, InputError
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    Intent,
    Link,
    Network,
    PortRef,
    Stream,
    TrafficClass,
)
from cnc.planner import executors
from cnc.planner.algorithm import Budget, Progress, Result
from cnc.planner.executors import open_executor
from cnc.planner.greedy import NoWait
from cnc.planner.neighbourhood import Neighbourhood
from cnc.planner.portfolio import Portfolio
from cnc.planner.problem import Problem
from cnc.planner.route import Placement
from cnc.planner.routing import Router

STREAMS = 4
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)


def a_problem() -> Problem:
    """Four streams over two bridges."""
    links = {}
    for a, b in [("t", "s1"), ("s1", "s2"), ("s2", "l")]:
        for source, target in ((PortRef(a, b), PortRef(b, a)), (PortRef(b, a), PortRef(a, b))):
            links[source] = Link(source, target, 10**9, 100)
    network = Network(
        {name: Bridge(name, 1000, 5000) for name in ("s1", "s2")},
        {name: EndStation(name) for name in ("t", "l")},
        links,
        clock_error_ns=1000,
    )
    streams = {
        name: Stream(name, "t", ("l",), ("cyclic",), 100_000, 100, 100_000)
        for name in (f"stream{number}" for number in range(STREAMS))
    }
    intent = Intent("test", network, {"cyclic": CYCLIC}, streams, {})
    return Problem(intent, Router(intent).route_all(list(streams.values())))


@dataclass
class Places:
    """Places the first so many of the members."""

    count: int
    name: str = "places"
    impossible: tuple[str, ...] = ()
    interrupted: bool = False
    runs: list[str] = field(default_factory=list)

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        self.runs.append(self.name)
        routes = [
            problem.route(member, problem.trees[member.stream][member.path])
            for member in problem.members[: self.count]
        ]
        placements = {route.member: Placement(route, route.offsets_ns, 6) for route in routes}
        return Result(self.name, placements, self.impossible, self.interrupted)


class Fails:
    name = "fails"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        raise ZeroDivisionError


class Interrupted:
    name = "interrupted"

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        raise KeyboardInterrupt


class InThisOrder(Executor):
    """Finishes its calls in a given order, each when the one before has been watched."""

    def __init__(self, *order: int) -> None:
        self.order = list(order)
        self.calls: list[tuple[Future[Result], partial[Result]]] = []

    def submit(self, fn, /, *args, **kwargs):
        future: Future[Result] = Future()
        self.calls.append((future, partial(fn, *args, **kwargs)))
        if len(self.calls) == max(self.order) + 1:
            self.finish_next()
        return future

    def finish_next(self, _: Progress | None = None) -> None:
        if not self.order:
            return
        future, call = self.calls[self.order.pop(0)]
        try:
            future.set_result(call())
        except ZeroDivisionError as error:
            future.set_exception(error)

    def cancelled(self) -> list[int]:
        return [number for number, (future, _) in enumerate(self.calls) if future.cancelled()]


def finished_in_order(algorithms: Sequence, *order: int) -> tuple[Result, InThisOrder]:
    executor = InThisOrder(*order)
    budget = Budget(watch=executor.finish_next)
    return Portfolio(algorithms, executor).schedule(a_problem(), budget), executor


def placed_by(*algorithms) -> Result:
    return Portfolio(algorithms).schedule(a_problem(), Budget())


def test_the_first_that_places_everything_wins_and_the_rest_do_not_run() -> None:
    part, whole, later = Places(1), Places(STREAMS, "whole"), Places(STREAMS, "later")
    assert placed_by(part, whole, later).algorithm == "whole"
    assert (part.runs, later.runs) == (["places"], [])


def test_if_none_places_everything_the_first_of_those_that_place_most_wins() -> None:
    result = placed_by(Places(1), Places(3, "most"), Places(3, "as many"), Places(2))
    assert (result.algorithm, len(result.placements)) == ("most", 3)
    assert not result.interrupted


def test_a_later_one_that_finishes_first_does_not_win() -> None:
    algorithms = [Places(STREAMS, name) for name in ("first", "second", "third")]
    result, _ = finished_in_order(algorithms, 2, 1, 0)
    assert result.algorithm == "first"


def test_a_later_one_wins_when_all_before_it_are_known_to_fall_short() -> None:
    algorithms = [Places(2), Places(3), Places(STREAMS, "third"), Places(STREAMS, "fourth")]
    result, executor = finished_in_order(algorithms, 3, 2, 1, 0)
    assert result.algorithm == "third"
    assert executor.order == []


def test_what_still_runs_when_the_result_is_known_is_cancelled() -> None:
    algorithms = [Places(1), Places(STREAMS, "whole"), Places(STREAMS), Places(STREAMS)]
    result, executor = finished_in_order(algorithms, 0, 1, 2, 3)
    assert result.algorithm == "whole"
    assert executor.cancelled() == [2, 3]


def test_an_error_counts_only_when_its_turn_comes() -> None:
    result, _ = finished_in_order([Places(STREAMS, "whole"), Fails(), Fails()], 2, 1, 0)
    assert result.algorithm == "whole"
    with pytest.raises(ZeroDivisionError):
        finished_in_order([Places(1), Fails(), Places(STREAMS)], 2, 1, 0)


def test_progress_tells_how_many_are_ready_and_the_best_so_far() -> None:
    executor = InThisOrder(2, 0, 1)
    told: list[Progress] = []

    def watch(progress: Progress) -> None:
        told.append(progress)
        executor.finish_next()

    Portfolio([Places(1), Places(2), Places(3)], executor).schedule(
        a_problem(), Budget(watch=watch)
    )
    assert told == [
        Progress("portfolio: 1 of 3", 3, STREAMS),
        Progress("portfolio: 2 of 3", 3, STREAMS),
        Progress("portfolio: 3 of 3", 3, STREAMS),
    ]


def test_an_interrupt_returns_the_best_that_is_ready_and_cancels_the_rest() -> None:
    executor = InThisOrder(3, 1, 0, 2)

    def watch(_: Progress) -> None:
        if executor.order == [0, 2]:
            raise KeyboardInterrupt
        executor.finish_next()

    algorithms = [Places(STREAMS), Places(1), Places(STREAMS), Places(2, "best")]
    result = Portfolio(algorithms, executor).schedule(a_problem(), Budget(watch=watch))
    assert result.interrupted
    assert (result.algorithm, len(result.placements)) == ("best", 2)
    assert executor.cancelled() == [0, 2]


def test_an_interrupt_of_one_after_the_other_keeps_what_came_before() -> None:
    result = placed_by(Places(2, "before"), Interrupted(), Places(STREAMS))
    assert result.interrupted
    assert (result.algorithm, len(result.placements)) == ("before", 2)


def test_after_an_interrupt_that_the_algorithm_took_itself_no_other_runs() -> None:
    later = Places(STREAMS)
    result = placed_by(Places(2, "before"), Places(1, interrupted=True), later)
    assert result.interrupted
    assert (result.algorithm, later.runs) == ("before", [])


def test_an_interrupt_before_anything_is_ready_leaves_what_was_kept() -> None:
    problem = a_problem()
    (member, placement), *_ = Places(1).schedule(problem, Budget()).placements.items()
    keeping = Problem(problem.intent, problem.trees, kept={member: placement})
    result = Portfolio([Interrupted()]).schedule(keeping, Budget())
    assert result.interrupted
    assert result.placements == {member: placement}


def test_a_proof_is_told_whoever_found_it() -> None:
    result = placed_by(Places(1, impossible=("stream0", "stream1")), Places(3, "most"))
    assert (result.algorithm, result.impossible) == ("most", ("stream0", "stream1"))


def test_a_portfolio_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Portfolio([])


def test_a_problem_survives_the_way_to_another_process() -> None:
    problem = a_problem()
    before = NoWait().schedule(problem, Budget())
    arrived = pickle.loads(pickle.dumps(problem))  # noqa: S301
    assert arrived == problem
    assert NoWait().schedule(arrived, Budget()) == before


def test_processes_come_to_the_result_of_one_process() -> None:
    algorithms = [
        Neighbourhood(paced=paced, seed=seed) for paced in (True, False) for seed in (0, 1)
    ]
    alone = Portfolio(algorithms).schedule(a_problem(), Budget())
    with open_executor("local:2") as executor:
        # A watcher stays here, whatever it is.
        budget = Budget(watch=lambda _: None)
        assert Portfolio(algorithms, executor).schedule(a_problem(), budget) == alone
    assert len(alone.placements) == STREAMS


def test_each_call_has_a_process_of_its_own_that_no_interrupt_reaches() -> None:
    with open_executor("local:2") as executor:
        pid = executor.submit(os.getpid)
        blocked = executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ())
        assert pid.result() != os.getpid()
        assert signal.SIGINT in blocked.result()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_call_that_runs_can_be_cancelled_and_makes_room_for_the_next() -> None:
    with open_executor("local:2") as executor:
        endless = [executor.submit(time.sleep, 1000) for _ in range(2)]
        waiting = executor.submit(abs, -1)
        assert not wait([waiting], timeout=0.5).done
        assert all(future.cancel() for future in endless)
        assert waiting.result(timeout=20) == 1
        assert wait(endless, timeout=20).not_done == set()


def test_the_end_of_the_block_ends_what_still_runs() -> None:
    with open_executor("local:2") as executor:
        futures = [executor.submit(time.sleep, 1000) for _ in range(3)]
    assert all(future.cancelled() for future in futures)


def test_an_error_in_a_process_is_raised_here_with_the_place_where_it_happened() -> None:
    with open_executor("local:2") as executor, pytest.raises(ZeroDivisionError) as raised:
        executor.submit(divmod, 1, 0).result()
    assert "call()" in raised.value.__notes__[0]


def test_what_cannot_be_sent_to_a_process_is_an_error_of_the_call() -> None:
    with (
        open_executor("local:2") as executor,
        pytest.raises((AttributeError, pickle.PicklingError)),
    ):
        executor.submit(lambda: 1).result()


def test_a_process_that_dies_is_told_in_words() -> None:
    calls: list[Future[object]] = []

    def plan_in_two_processes() -> None:
        with open_executor("local:2") as executor:
            calls.append(executor.submit(signal.raise_signal, signal.SIGKILL))
            # Large calls behind it must not keep the end of the block waiting.
            calls.extend(executor.submit(time.sleep, b"x" * 10**6) for _ in range(4))
            calls[0].result()

    with pytest.raises(CncError, match=r"in 2 processes: .* ended .*\(exit code -9\)") as died:
        plan_in_two_processes()
    assert "local:N" in died.value.hint
    assert all(call.done() for call in calls)


KILLED_PARENT = """
import time
from cnc.planner.executors import open_executor
from tests.unit.test_planner_portfolio import tell_pid_and_sleep
if __name__ == "__main__":
    with open_executor("local:2") as executor:
        executor.submit(tell_pid_and_sleep).result()
"""


def tell_pid_and_sleep() -> None:
    print(os.getpid(), flush=True)
    time.sleep(1000)


def test_a_process_ends_when_its_parent_is_killed(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(KILLED_PARENT)
    command = [sys.executable, script]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout.readline().strip().isdigit()
        parent.kill()
        # Its end of the pipe closes with the process: this returns, or the test times out.
        assert parent.stdout.read() == b""


def test_one_core_needs_no_other_process(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    for where in ("", "local", "local:1"):
        with open_executor(where) as executor:
            assert executor is None


@pytest.mark.parametrize("where", ["", "local"])
def test_without_a_number_all_cores_work(where, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5})
    with open_executor(where) as executor:
        assert executor._threads._max_workers == 3


@pytest.mark.parametrize("where", ["cluster", "tcp://10.0.0.1:8786", "localhost", ":", "local/2"])
def test_an_unknown_place_is_refused_with_the_choices(where) -> None:
    with pytest.raises(InputError, match=f"'{where}'") as refused, open_executor(where):
        pass
    assert "local:N" in refused.value.hint
    assert "dask://HOST:PORT" in refused.value.hint


@pytest.mark.parametrize("where", ["local:", "local:0", "local:two", "local:-1", "local:1.5"])
def test_a_number_of_processes_that_is_none_is_refused(where) -> None:
    with pytest.raises(InputError, match="not a number of processes"), open_executor(where):
        pass


@pytest.mark.parametrize(
    "where",
    [
        "dask:",
        "dask://",
        "dask://host",
        "dask://:8786",
        "dask://host:0",
        "dask://host:70000",
        "dask://host:port",
        "dask://::1:8786",
        "dask://[::1:8786",
        "dask://user@host:8786",
        "dask://host:8786/path",
    ],
)
def test_a_bad_dask_address_is_refused(where) -> None:
    with pytest.raises(InputError, match="a host and a port"), open_executor(where):
        pass


@pytest.mark.parametrize("address", ["host:8786", "10.0.0.1:8786", "[::1]:8786"])
def test_a_good_dask_address_is_handed_on(address) -> None:
    assert executors._dask_address(f"dask://{address}") == address


def test_without_dask_it_is_said_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    where = "dask://localhost:8786"
    with pytest.raises(InputError, match="not installed") as refused, open_executor(where):
        pass
    assert refused.value.hint == "pip install 'tsn-control-plane[cluster]'"


def versions(python="3.11.2.final.0", distributed="2026.8.0", ours="0.1.0") -> dict:
    packages = {"python": python, "distributed": distributed, "tsn-control-plane": ours}
    return {"packages": packages}


def check_worker(worker: dict | None, scheduler: dict | None = None) -> None:
    found = {"client": versions(), "scheduler": scheduler or versions()}
    workers = {"tcp://10.0.0.2:9000": worker} if worker else {}
    executors._check_versions("dask://host:8786", {**found, "workers": workers})


def test_workers_with_the_same_versions_are_accepted() -> None:
    check_worker(versions())
    check_worker(versions(python="3.11.9.final.0"))


@pytest.mark.parametrize(
    ("worker", "what"),
    [
        (
            versions(python="3.12.2.final.0"),
            r"Python is 3\.12 on tcp://10\.0\.0\.2:9000, and 3\.11",
        ),
        (versions(distributed="2025.1.0"), r"distributed is 2025\.1\.0 on tcp"),
        (versions(ours="0.2.0"), r"tsn-control-plane is 0\.2\.0 on tcp"),
        (versions(ours=None), "tsn-control-plane is not installed on tcp"),
        (None, "has no workers"),
    ],
)
def test_workers_that_would_not_come_to_the_same_plan_are_refused(worker, what) -> None:
    with pytest.raises(CncError, match=what):
        check_worker(worker)


def test_a_scheduler_of_another_version_is_refused() -> None:
    with pytest.raises(CncError, match=r"distributed is 2025\.1\.0 on scheduler"):
        check_worker(versions(), scheduler=versions(distributed="2025.1.0"))
