"""Two controllers under the requests of two CUCs: whichever leads is killed, or stands still for
longer than its lease, at an instant that a seed draws, and comes back.

Usage: python -m tests.stack.controllers_at_random [--rounds N] [--seed N]

After each round, with the CUCs at rest: each stream is there, or gone, as the last answer about it
said; each accepted request is in the audit log once, each refused or unanswered one not at all; the
switches run the plan of the database, in its term, which is higher than before. How long it took
until all had ended that the former leader had begun, from when the next one led, is in the table
that is printed, and may be 10 s. Exit code: 0 all rounds were so, 1 one was not.
"""

from __future__ import annotations

import argparse
import operator
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from cnc.service.client import Client
from cnc.service.refused import CallRefused, Code
from tests.stack.controller_network import Network, both_run, rehearsed
from tests.stack.controller_processes import LIMIT_S, Controller, Controllers, controllers, stream
from tests.stack.netconfd_process import wait_until
from tests.stack.postgresql import Cluster

MIXTURE_MAX_S = 10.0
_CUCS = {"plc": range(1, 7), "hmi": range(7, 13)}  # with the numbers of their streams
_STRUCK_WITHIN_S = 4.0
_AFTER_S = 3.0  # for how long the CUCs go on when both controllers are there again
_PAUSE_S = 0.3  # between two requests of a CUC, at most
_AGAIN_S = 0.1
_ANSWER_S = 5.0  # until a CUC asks the other controller; one that stands still answers nothing
HEAD = (
    "| round | how | after (s) | in a rollout | next leads (s) | mixture (s) | done | refused |"
    " asked again |\n|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Round:
    """What a round came to. `rollout` is the phase of the one that it struck, "" for none;
    `leads_s` counts from the strike, `mixture_s` from when the next one led."""

    number: int
    how: signal.Signals
    after_s: float
    rollout: str
    leads_s: float
    mixture_s: float
    done: int
    refused: int
    again: int

    def __str__(self) -> str:
        times = f"{self.leads_s:.1f} | {self.mixture_s:.1f}"
        struck = f"{self.how.name} | {self.after_s:.2f} | {self.rollout or 'none'}"
        return (
            f"| {self.number} | {struck} | {times} | {self.done} | {self.refused} | {self.again} |"
        )


class Cuc:
    """Puts and removes its streams, by either controller, and asks again until it is answered."""

    def __init__(self, two: Controllers, name: str, numbers: Sequence[int], seed: str) -> None:
        self._two, self._name, self._numbers = two, name, numbers
        self._chance = Random(f"{seed} {name}")  # noqa: S311  no secret
        self._key = 0
        self.placed: set[str] = set()
        self.done: Counter[tuple[str, str]] = Counter()  # by call and subject, as in the audit log
        self.refused = self.again = 0

    def ask_until(self, stop: threading.Event) -> None:
        while not stop.wait(self._chance.uniform(0, _PAUSE_S)):
            self._ask(self._chance.choice(self._numbers))

    def subjects(self) -> set[str]:
        """The streams that it has, as the audit log calls them."""
        return {f"{self._name} {each}" for each in self.placed}

    def _ask(self, number: int) -> None:
        """One request, to its answer."""
        body = stream(number)
        its_id = str(body["stream-id"])
        is_there, self._key = its_id in self.placed, self._key + 1
        key = f"{self._name} {self._key}"
        until_s = time.monotonic() + LIMIT_S
        while True:
            try:
                with self._client() as client:
                    if is_there:
                        client.remove_stream(self._name, its_id, idempotency_key=key)
                    else:
                        client.put_stream(self._name, body, idempotency_key=key)
            except CallRefused as refused:
                if refused.code is Code.UNAVAILABLE and time.monotonic() < until_s:
                    self.again += 1
                    time.sleep(_AGAIN_S)
                    continue
                if is_there or refused.code is not Code.CONFLICT:
                    raise
                self.refused += 1
                return
            self.done["stream.delete" if is_there else "stream.put", f"{self._name} {its_id}"] += 1
            self.placed ^= {its_id}
            return

    def _client(self) -> Client:
        its = self._chance.choice((self._two.a, self._two.b))
        url, certificate = f"https://127.0.0.1:{its.port}", its.directory / "tls.crt"
        return Client(url, self._two.token, certificate=certificate, timeout_s=_ANSWER_S)


class Load:
    """The CUCs, from `with` to its end, when each has got its last answer."""

    def __init__(self, cucs: Sequence[Cuc]) -> None:
        self._stop, self._failed = threading.Event(), False
        self._threads = [threading.Thread(target=self._run, args=[each]) for each in cucs]

    def __enter__(self) -> None:
        for each in self._threads:
            each.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()
        assert not self._failed, "a CUC has met what it should not; its error is above"

    def _run(self, cuc: Cuc) -> None:
        self._failed = True
        cuc.ask_until(self._stop)
        self._failed = False


def rounds(two: Controllers, network: Network, count: int, seed: int) -> Iterator[Round]:
    """So many rounds. Raises AssertionError for what a round must not come to."""
    chance = Random(seed)  # noqa: S311  no secret
    cucs = [Cuc(two, name, numbers, str(seed)) for name, numbers in _CUCS.items()]
    both_run(two)
    two.leader()
    for number in range(1, count + 1):
        assert wait_until(network.is_quiet, LIMIT_S), _logs(two)
        how = chance.choice((signal.SIGKILL, signal.SIGSTOP))
        after_s, before = chance.uniform(0, _STRUCK_WITHIN_S), _counted(cucs)
        phases, *times = _lost(two, network, cucs, how, after_s)
        require_as_answered(two, network, cucs)
        counted = map(operator.sub, _counted(cucs), before)
        yield Round(number, how, after_s, phases, *times, *counted)


def _lost(
    two: Controllers, network: Network, cucs: Sequence[Cuc], how: signal.Signals, after_s: float
) -> tuple[str, float, float]:
    """The leader is lost that long after the CUCs have begun, and comes back. Returns what of a
    `Round` is about that."""
    leader = two.leader()
    other, term = two.other(leader), network.term()
    with Load(cucs):
        time.sleep(after_s)
        leader.signal(how)
        struck_s = time.monotonic()
        unended = network.asked("SELECT number, phase FROM rollout WHERE ended IS NULL")
        assert wait_until(lambda: other.leads, LIMIT_S), other.log
        leads_s = time.monotonic()
        upto = max((each for each, _ in unended), default=0)
        assert wait_until(lambda: not network.unfinished(upto=upto), LIMIT_S), other.log
        mixed_s = time.monotonic()
        _come_back(leader, how)
        time.sleep(_AFTER_S)
    assert wait_until(network.is_quiet, LIMIT_S), _logs(two)
    assert network.term() > term
    phases = ", ".join(phase for _, phase in unended)
    return phases, leads_s - struck_s, mixed_s - leads_s


def _counted(cucs: Sequence[Cuc]) -> tuple[int, int, int]:
    """Of all CUCs: requests done and refused, and how often one was asked again."""
    return (
        sum(sum(each.done.values()) for each in cucs),
        sum(each.refused for each in cucs),
        sum(each.again for each in cucs),
    )


def _come_back(its: Controller, how: signal.Signals) -> None:
    if how is signal.SIGKILL:
        its.kill()
        its.start()
    else:
        its.signal(signal.SIGCONT)
        assert wait_until(lambda: not its.leads, LIMIT_S), its.log


def require_as_answered(two: Controllers, network: Network, cucs: Sequence[Cuc]) -> None:
    """Raise AssertionError where a request was lost, or done twice, or where the switches run
    something else than what was decided."""
    found = {
        f"{cuc} {its_id}": state
        for cuc, its_id, state in network.asked("SELECT cuc, stream_id, state FROM stream")
    }
    wanted = {subject for each in cucs for subject in each.subjects()}
    assert found == dict.fromkeys(wanted, "configured"), f"{found}, wanted {wanted}\n{_logs(two)}"
    counted = network.asked(
        "SELECT \"call\", subject, count(*) FROM audit WHERE outcome = 'placed'"
        " AND \"call\" LIKE 'stream.%' GROUP BY 1, 2"
    )
    done = sum((each.done for each in cucs), Counter())
    assert {(call, subject): times for call, subject, times in counted} == done, _logs(two)
    assert {term for term, _ in network.met().values()} == {network.term()}
    assert all(port["agrees"] for port in two.status(two.leader())), _logs(two)


def _logs(two: Controllers) -> str:
    return f"{two.a.log}\n{two.b.log}"


def summary(found: Sequence[Round]) -> str:
    """The lines under the table."""
    kills = sum(each.how is signal.SIGKILL for each in found)
    struck = sum(bool(each.rollout) for each in found)
    longest = max(each.mixture_s for each in found)
    late = sum(each.mixture_s > MIXTURE_MAX_S for each in found)
    return (
        f"{len(found)} rounds: {kills} killed, {len(found) - kills} stood still, {struck} in a "
        f"rollout; {sum(each.done for each in found)} requests done; the mixture ended within "
        f"{longest:.1f} s of a leader being there, later than {MIXTURE_MAX_S:g} s in {late}"
    )


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(words)
    found: list[Round] = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        cluster = stack.enter_context(Cluster())
        network = stack.enter_context(rehearsed(home, cluster))
        two = stack.enter_context(controllers(network.user, network.url))
        print(HEAD, flush=True)
        for each in rounds(two, network, asked.rounds, asked.seed):
            found.append(each)
            print(each, flush=True)
    print(summary(found))
    return int(any(each.mixture_s > MIXTURE_MAX_S for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
