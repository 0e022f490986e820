"""The wall between sessions and the commit: whatever clients do, the promise of a commit is kept.

A confirmed commit goes back when its time is over, or when its session has ended; and a session
that computes for ever is ended by whoever may end it.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import pytest
from ncclient.transport import TransportError

from tests.scale.stopwatch import cpu_s
from tests.stack.attacks import ATTACKS, CROWD, attacked
from tests.stack.netconfd_probed import BROKER, FRONT, Probe
from tests.stack.netconfd_process import NetconfdProcess, runs, wait_until
from tests.stack.test_netconfd_confirmed_commit import LONG_S, edit, running

PROGRAM = Path(__file__).with_name("netconfd_probed.py")
BENCH = Path(__file__).parents[2] / "scripts" / "bench-deadline"
ID = "rollout-7"
# Enough to commit, and little to wait for.
SHORT_S = "2"
# A machine with other work gives a computing process this much CPU time, some day.
PATIENCE_S = 60.0
# Of CPU time. In one turn of a loop, all that has happened since the last one is done.
MAX_TURN_NS = 50_000_000
# Rounds of an attack that are looked at.
ROUNDS = 3
# What an operator waits beside an attack, against the longest wait without.
LOOKS = 5
MAX_SLOWER = 20


@pytest.fixture
def probed(sysrepo_repository, tmp_path):
    """Starts a server whose requests may take so many seconds of CPU time, with probes in it."""
    servers = []

    def start(request_cpu_s=600):
        server = NetconfdProcess(tmp_path / "netconfd")
        probe = tmp_path / "turns"
        server.wrapper = [sys.executable, str(PROGRAM), str(probe), str(request_cpu_s)]
        server.start()
        servers.append(server)
        return server, Probe(probe)

    yield start
    for server in servers:
        server.stop()


def commit_unconfirmed(client, timeout_s=LONG_S, **options):
    """Running is described as `before`, and is `after` now, until that is confirmed."""
    edit(client, "before")
    client.commit()
    edit(client, "after")
    client.commit(confirmed=True, timeout=timeout_s, **options)


def goes_back(client, timeout_s=PATIENCE_S):
    """Whether running is what it was, as another sysrepo client sees it."""
    return wait_until(
        lambda: client.interface("tsn-test-1", "running")["description"] == "before", timeout_s
    )


def logs(server, text):
    """Whether the server says so; it does after the deed."""
    return wait_until(lambda: text in server.log)


@contextmanager
def stopped(pid):
    """A process that does nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        # It may have ended since it was let go on.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def process_that_computes(server):
    """The session process that has used more than half a second."""
    assert wait_until(lambda: any(cpu_s([pid]) > 0.5 for pid in server.session_pids), PATIENCE_S)
    return max(server.session_pids, key=lambda pid: cpu_s([pid]))


def number_of_observers_session(server):
    return re.findall(r"session (\d+) observer@.* opened", server.log)[0]


# --- the promise ---


@pytest.mark.parametrize("process", ["front", "spawner", "session"])
def test_a_commit_goes_back_in_time_though_a_process_before_the_broker_is_frozen(
    netconfd, client, process
):
    with netconfd.connect() as operator:
        commit_unconfirmed(operator, timeout_s=SHORT_S)
        frozen = {
            "front": netconfd.pid,
            "spawner": netconfd.spawner_pid,
            "session": netconfd.session_pids[0],
        }[process]
        with stopped(frozen):
            assert goes_back(client)
        assert logs(netconfd, "confirmed commit reverted: not confirmed in time")


def test_a_commit_of_a_session_whose_process_is_killed_goes_back_at_once(netconfd, client):
    operator = netconfd.connect()
    commit_unconfirmed(operator)
    os.kill(netconfd.session_pids[0], signal.SIGKILL)

    assert goes_back(client)
    assert logs(netconfd, "ended before it confirmed")
    assert logs(netconfd, "its process was killed")


def test_a_commit_with_a_persist_id_outlives_the_process_of_its_session(netconfd, client):
    operator = netconfd.connect()
    commit_unconfirmed(operator, persist=ID)
    os.kill(netconfd.session_pids[0], signal.SIGKILL)

    assert logs(netconfd, "its process was killed")
    with netconfd.connect() as successor:
        assert running(successor) == "after"
        successor.commit(persist_id=ID)
        assert running(successor) == "after"


@pytest.mark.parametrize("process", ["front", "spawner"])
def test_a_broker_whose_front_is_gone_undoes_what_is_unconfirmed_and_ends(
    netconfd, client, process
):
    operator = netconfd.connect()
    commit_unconfirmed(operator, persist=ID)
    pids = netconfd.pids
    os.kill(netconfd.pid if process == "front" else netconfd.spawner_pid, signal.SIGKILL)

    assert goes_back(client)
    assert wait_until(lambda: not any(map(runs, pids)), PATIENCE_S)


def test_a_commit_of_a_killed_broker_is_undone_by_the_next(netconfd, client):
    operator = netconfd.connect()
    commit_unconfirmed(operator, persist=ID)
    os.kill(netconfd.broker_pid, signal.SIGKILL)
    # Nothing can be served without it: a service manager starts both again.
    assert netconfd.wait() == 1
    assert "the broker has ended" in netconfd.log
    netconfd.start()

    assert goes_back(client)


def test_a_server_waits_for_the_end_of_one_whose_front_was_killed(netconfd, client):
    operator = netconfd.connect()
    commit_unconfirmed(operator, persist=ID)
    former = netconfd.broker_pid
    with stopped(former), ThreadPoolExecutor() as service_manager:
        os.kill(netconfd.pid, signal.SIGKILL)
        netconfd.wait()
        restart = service_manager.submit(netconfd.start)
        assert logs(netconfd, "waiting for its end")
        os.kill(former, signal.SIGCONT)
        restart.result()

        assert not runs(former)
        assert goes_back(client, timeout_s=0)


# --- a session that computes ---


def test_a_session_that_computes_for_ever_is_ended_by_kill_session(probed):
    server, _ = probed()
    with server.connect() as operator, attacked(server, ATTACKS["endless query"]):
        computing = process_that_computes(server)
        operator.kill_session(number_of_observers_session(server))

        assert wait_until(lambda: not runs(computing), PATIENCE_S)
        assert operator.get_config("running").ok


def test_a_request_that_computes_for_ever_ends_at_its_cpu_time(probed):
    server, _ = probed(request_cpu_s=1)
    with server.connect() as operator, attacked(server, ATTACKS["endless query"]):
        assert wait_until(lambda: "more than 1 s of CPU for a request" in server.log, PATIENCE_S)
        assert operator.get_config("running").ok


def test_sigterm_ends_a_session_that_computes_and_undoes_what_is_unconfirmed(probed, client):
    server, _ = probed()
    operator = server.connect()
    commit_unconfirmed(operator, persist=ID)
    with attacked(server, ATTACKS["endless query"]):
        computing = process_that_computes(server)
        assert server.stop() == 0

    assert not runs(computing)
    assert goes_back(client, timeout_s=0)


# --- what the loops do beside it ---


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_holds_up_the_front_or_the_broker(probed, client, name):
    server, probe = probed(request_cpu_s=2)
    with server.connect() as operator, attacked(server, ATTACKS[name]) as attack:
        assert wait_until(lambda: attack.rounds > 0, PATIENCE_S)
        probe.forget()
        begun = attack.rounds
        commit_unconfirmed(operator, timeout_s="1")
        assert goes_back(client)
        assert wait_until(lambda: attack.rounds >= begun + ROUNDS, PATIENCE_S)
        front_ns, broker_ns = probe.longest_ns(FRONT), probe.longest_ns(BROKER)

    print(
        f"{name}: longest turn {front_ns / 1e6:.1f} ms (front), {broker_ns / 1e6:.1f} ms (broker)"
    )
    assert 0 < front_ns <= MAX_TURN_NS
    assert 0 < broker_ns <= MAX_TURN_NS


def test_an_operator_is_served_beside_a_hundred_sessions_that_compute(netconfd, client):
    """Against what it waits on the same machine without them, before and after."""

    def waits_s():
        """For a session, and the three requests of a change."""
        begun_s = time.monotonic()
        with netconfd.connect(timeout=PATIENCE_S) as operator:
            opened_s = time.monotonic()
            assert operator.get_config("running").ok
            edit(operator, f"at {begun_s}")
            operator.commit()
        return opened_s - begun_s, time.monotonic() - opened_s

    alone = [waits_s() for _ in range(LOOKS)]
    with attacked(netconfd, ATTACKS["crowd"]) as attack:
        assert wait_until(lambda: attack.rounds > 0, PATIENCE_S)
        beside = [waits_s() for _ in range(LOOKS)]
        assert len(netconfd.session_pids) > CROWD / 2
    alone += [waits_s() for _ in range(LOOKS)]

    for what, before, meanwhile in zip(
        ("a session", "a change"), zip(*alone, strict=True), zip(*beside, strict=True), strict=True
    ):
        print(f"{what}: {max(before):.3f} s at most, beside them {median(meanwhile):.3f} s")
        assert median(meanwhile) < MAX_SLOWER * max(before)


def test_how_late_a_deadline_is_beside_an_attack_can_be_measured():
    command = [BENCH, "--rounds", "1", "--attack", "everything"]
    bench = subprocess.run(command, capture_output=True, text=True, check=False)

    assert bench.returncode == 0, bench.stderr
    (measured,) = (line for line in bench.stdout.splitlines() if line.startswith("| everything"))
    assert len(re.findall(r"\d+\.\d", measured)) == 6 * 3 + 2


# --- what they hold ---


def what_it_holds(pid):
    """The files that a process has open or in its memory."""
    process = Path(f"/proc/{pid}")
    opened = {str(each.readlink()) for each in (process / "fd").iterdir()}
    mapped = {line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines()}
    return opened | mapped


def of_sysrepo(files, repository):
    return {each for each in files if repository.shm_prefix in each or str(repository.path) in each}


def test_only_the_broker_holds_sysrepo(netconfd, sysrepo_repository):
    with netconfd.connect():
        assert of_sysrepo(what_it_holds(netconfd.broker_pid), sysrepo_repository)
        for pid in (netconfd.pid, netconfd.spawner_pid, *netconfd.session_pids):
            assert not of_sysrepo(what_it_holds(pid), sysrepo_repository)


def test_a_session_process_has_two_sockets_and_can_have_nothing_else(netconfd):
    with netconfd.connect():
        (session,) = netconfd.session_pids
        links = [str(each.readlink()) for each in Path(f"/proc/{session}/fd").iterdir()]
        kinds = {"/dev/null", *(link.split(":")[0] for link in links if ":" in link)}
        limits = Path(f"/proc/{session}/limits").read_text()

    # /dev/null as stdin and stdout, a pipe as stderr, and what its event loop waits with.
    assert kinds == {"/dev/null", "pipe", "socket", "anon_inode"}
    assert sum(link.startswith("socket:") for link in links) == 2 + 2
    for name in ("open files", "processes", "file size"):
        assert re.search(rf"^Max {name} +0 +0 ", limits, re.MULTILINE)


@pytest.mark.parametrize("process", ["broker", "spawner"])
def test_a_process_without_a_free_descriptor_refuses_the_login_and_keeps_the_sessions(
    netconfd, process
):
    pid = {"broker": netconfd.broker_pid, "spawner": netconfd.spawner_pid}[process]
    with netconfd.connect() as client:
        taken = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
        free = min(set(range(len(taken) + 1)) - taken)
        former = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, former[1]))
        with pytest.raises((OSError, TransportError)):
            netconfd.connect()
        assert wait_until(lambda: "no descriptor left" in netconfd.log)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, former)
        assert client.get_config("running").ok
        netconfd.connect().close_session()
        assert client.get_config("running").ok
