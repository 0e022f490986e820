"""Two controllers where something beside them fails: a worker, a clock, the disk of the database.

Which test is for which fault says docs/operate/controllers.md.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.service.refused import CallRefused, Code
from tests.stack.controller_network import (  # noqa: F401
    Asking,
    Network,
    both_run,
    is_done,
    is_done_by,
    lead_with_fate,
    network,
    rehearsed,
    standing_still,
    two,
)
from tests.stack.controller_processes import (
    CUC,
    LIMIT_S,
    Controller,
    Controllers,
    controllers,
    stream,
)
from tests.stack.netconfd_process import wait_until
from tests.stack.postgresql import Cluster

DISK_OCTETS = 24 * 2**20  # an empty database takes 8 MiB


def workers(its: Controller) -> list[int]:
    """The web workers of a controller."""
    assert its.process
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == str(its.process.pid) and b"cnc.service.web" in words:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize(("number", "asked"), [(1, "leader"), (2, "standby")])
def test_a_request_whose_web_worker_is_killed_is_done_once(
    network: Network, two: Controllers, number: int, asked: str
) -> None:
    leader, other = lead_with_fate(two, network, "on-disk", "SIGSTOP", number)
    its = leader if asked == "leader" else other
    asking = Asking(two, its, number)
    assert wait_until(lambda: standing_still(leader), LIMIT_S), leader.log
    (worker,) = workers(its)
    os.kill(worker, signal.SIGKILL)
    assert asking.ended() is None
    leader.signal(signal.SIGCONT)
    two.put(its, number)
    is_done(two, network, two.leader(), number)


@pytest.mark.parametrize(("number", "seconds"), [(3, 3600), (5, -3600)])
def test_a_wall_clock_that_is_set_in_the_midst_of_a_rollout_changes_nothing(
    network: Network, two: Controllers, number: int, seconds: int
) -> None:
    leader, other = lead_with_fate(two, network, "committed", str(seconds), number)
    term = network.term()
    two.put(other, number)
    is_done(two, network, leader, number)
    assert (leader.leads, network.term()) == (True, term)
    # And the next leader goes by its own, which is another one.
    assert lead_with_fate(two, network, "result", "SIGKILL", number + 1)[0] is leader
    asking = Asking(two, leader, number + 1)
    assert leader.process.wait(LIMIT_S) == -signal.SIGKILL, leader.log
    leader.kill()
    is_done_by(two, network, other, number + 1, asking.ended())


@pytest.fixture
def small_disk(postgresql: Cluster) -> Iterator[Path]:
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk of its own")
    with postgresql.small_disk(DISK_OCTETS) as disk:
        yield disk


def test_a_database_whose_disk_is_full_accepts_nothing_and_with_room_all_goes_on(
    small_disk: Path, postgresql: Cluster, tmp_path: Path
) -> None:
    with (
        rehearsed(tmp_path, postgresql, "small") as network,
        controllers(network.user, network.url) as two,
    ):
        both_run(two)
        leader = two.leader()
        assert wait_until(network.is_quiet, LIMIT_S), leader.log
        filling = small_disk / "filling"
        with filling.open("wb") as file:
            zeros = ["head", f"--bytes={DISK_OCTETS}", "/dev/zero"]
            subprocess.run(zeros, stdout=file, stderr=subprocess.DEVNULL, check=False)
        accepted = until_full(two, leader)
        assert wait_until(lambda: known(network) == accepted, LIMIT_S)
        filling.unlink()
        refused = len(accepted) + 1
        two.put(two.other(leader), refused)
        for number in range(1, refused + 1):
            is_done(two, network, two.leader(), number)


def until_full(two: Controllers, its: Controller) -> set[str]:
    """Put one stream after the other until there is no room for one; those that there was room
    for."""
    accepted: set[str] = set()

    def refused() -> CallRefused | None:
        its_body = stream(len(accepted) + 1)
        with its.client(two.token) as client:
            try:
                client.put_stream(CUC, its_body, idempotency_key=f"put {len(accepted) + 1}")
            except CallRefused as found:
                return found
        accepted.add(its_body["stream-id"])
        return None

    found = wait_until(refused, LIMIT_S)
    assert found, "the disk was never full"
    assert (found.code, "No space left on device" in str(found)) == (Code.UNAVAILABLE, True), found
    return accepted


def known(network: Network) -> set[str]:
    return {its_id for (its_id,) in network.asked("SELECT stream_id FROM stream")}
