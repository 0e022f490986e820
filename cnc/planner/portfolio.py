"""Several algorithms side by side: on the cores of this machine, or on the machines of a cluster.

An algorithm that places everything in one network gets stuck in another, and so does the same
algorithm with another seed. What one of them places is a plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import closing
from dataclasses import replace

from cnc.planner.algorithm import Algorithm, Budget, Progress, Result
from cnc.planner.problem import Problem


class Portfolio:
    """The first of several algorithms, in the order given, that places everything.

    If none does, the one that places the most. A later one never wins because it is quicker, so
    the result is the same without an executor, where one runs after the other, as with one.
    """

    name = "portfolio"

    def __init__(self, algorithms: Sequence[Algorithm], executor: Executor | None = None) -> None:
        if not algorithms:
            raise ValueError("a portfolio needs at least one algorithm")
        self._algorithms = tuple(algorithms)
        self._executor = executor

    def schedule(self, problem: Problem, budget: Budget) -> Result:
        """The best result; on an interrupt, the best of those that were ready by then.

        Errors of the algorithms and of the executor pass through once their turn has come.
        """
        if self._executor is None:
            results = self._one_by_one(problem, budget)
        else:
            results = self._side_by_side(self._executor, problem, budget)
        ready: list[Result] = []
        with closing(results):
            for result in results:
                ready.append(result)
                if result.interrupted or _placed(problem, result) == len(problem.members):
                    break
        # A conflict is one, whichever algorithm found it.
        impossible = next((result.impossible for result in ready if result.impossible), ())
        interrupted = ready[-1].interrupted
        return replace(_best(problem, ready), impossible=impossible, interrupted=interrupted)

    def _one_by_one(self, problem: Problem, budget: Budget) -> Generator[Result, None, None]:
        ready: list[Result] = []
        try:
            for algorithm in self._algorithms:
                ready.append(algorithm.schedule(problem, budget))
                budget.watch(self._progress(problem, ready))
                yield ready[-1]
        except KeyboardInterrupt:
            yield _interrupted(problem, ready)

    def _side_by_side(
        self, executor: Executor, problem: Problem, budget: Budget
    ) -> Generator[Result, None, None]:
        """The results in the order of the algorithms, each as soon as those before it are known.

        When the caller needs no more of them, the running ones are cancelled.
        """
        # Whoever watches does so here: a terminal cannot be sent to another process.
        unwatched = Budget(budget.ejections)
        futures: list[Future[Result]] = []
        try:
            futures.extend(
                executor.submit(algorithm.schedule, problem, unwatched)
                for algorithm in self._algorithms
            )
            unknown = deque(futures)
            for _ in as_completed(futures):
                budget.watch(self._progress(problem, _ready(futures)))
                while unknown and unknown[0].done():
                    yield unknown.popleft().result()
        except KeyboardInterrupt:
            yield _interrupted(problem, _ready(futures))
        finally:
            for future in futures:
                future.cancel()

    def _progress(self, problem: Problem, ready: Sequence[Result]) -> Progress:
        placed = max((_placed(problem, result) for result in ready), default=0)
        step = f"{self.name}: {len(ready)} of {len(self._algorithms)}"
        return Progress(step, placed, len(problem.members))


def _ready(futures: Sequence[Future[Result]]) -> list[Result]:
    return [
        future.result()
        for future in futures
        if future.done() and not future.cancelled() and future.exception() is None
    ]


def _interrupted(problem: Problem, ready: Sequence[Result]) -> Result:
    nothing = Result(Portfolio.name, problem.kept)
    return replace(_best(problem, [*ready, nothing]), interrupted=True)


def _best(problem: Problem, results: Sequence[Result]) -> Result:
    """The first of those that place the most."""
    return max(results, key=lambda result: _placed(problem, result))


def _placed(problem: Problem, result: Result) -> int:
    return sum(member in result.placements for member in problem.members)
