"""Session processes: what they have, what they cannot do, and how they end.

Each test looks at what one scenario of tests/unit/toy_scenarios.py has seen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.netconfd import confinement
from agent.netconfd.front import spawner_process
from agent.netconfd.system_calls import SystemCallFilter, Unavailable
from tests.unit.toy_sessions import is_running

try:
    SystemCallFilter()
    FILTERS = True
except Unavailable:
    FILTERS = False

ROOT = Path(__file__).parents[2]
WAIT_S = 60


def started(scenario):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.toy_scenarios", scenario],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def seen_by(scenario):
    """What the scenario has seen, and its log."""
    process = started(scenario)
    try:
        output, log = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, log
    return json.loads(output), log


def wait_until_ended(pids):
    """Until none of the processes runs; they are other processes' children."""
    deadline = time.monotonic() + WAIT_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "a session process has outlived the server"
        time.sleep(0.01)


def test_a_session_gets_its_start_and_what_all_share_and_ends_when_its_client_does():
    seen, _ = seen_by("an_echo")
    assert seen["start"] == {"capabilities": ["a", "b"]}
    assert seen["shared"] == "modules"
    ended = seen["ended"]
    assert (ended["how"], ended["is_orderly"]) == ("ended", True)
    assert ended["cpu_s"] > 0
    assert ended["max_rss_octets"] > 1_000_000


def test_a_sessions_garbage_collector_leaves_what_all_share_alone():
    seen, _ = seen_by("an_echo")
    assert seen["frozen objects"] > 1000


def test_the_log_says_in_words_how_each_session_ended():
    seen, log = seen_by("ends")
    assert seen.pop("its neighbour") == {}
    assert {name: ended["how"] for name, ended in seen.items()} == {
        "killed while it computed": "was ended",
        "compute": "used more than 1 s of CPU for a request",
        "crash": "crashed: SIGSEGV",
        "raise": "failed inside the server (exit code 1)",
        "SIGKILL from outside": "was killed: by an administrator, or because memory ran out",
        "SIGTERM": "was ended",
    }
    assert not any(ended["is_orderly"] for ended in seen.values())
    assert "session 4: RuntimeError: a defect" in log


def test_a_session_process_is_as_nice_as_it_is_told_from_its_server_on():
    (front, *sessions), _ = seen_by("polite")
    assert sessions == [min(front + nice, 19) for nice in (0, 5, 19)]


def kinds(files):
    """Without the numbers of sockets and pipes."""
    return [file.partition(":[")[0] for file in files]


@pytest.fixture(scope="module")
def confined():
    return seen_by("confined")[0]


def test_a_session_process_has_two_sockets_and_a_pipe_for_its_log(confined):
    assert kinds(confined["files"]) == ["/dev/null", "/dev/null", "pipe", "socket", "socket"]


def test_the_spawner_has_nothing_of_what_the_front_had_open(confined):
    files = [file for file in confined["spawner's files"] if "memfd:modules" not in file]
    # Its log, the selector, the front, and two sockets for its signals.
    log = "pipe"
    assert kinds(files) == ["/dev/null", "/dev/null", "anon_inode", log, *["socket"] * 3]


def test_a_session_process_gets_no_new_descriptor_and_its_event_loop_works(confined):
    errors = confined["new descriptors"]
    assert len(errors) == 8
    if not FILTERS:
        # It is the limit that refuses. fcntl(2), F_DUPFD: the lowest number wanted is beyond it.
        assert errors.pop("dup") == "EINVAL"
    assert set(errors.values()) == {"EPERM" if FILTERS else "EMFILE"}


def test_a_session_process_has_given_up_what_it_does_not_need(confined):
    assert confined["limits"] == {name: [0, 0] for name in ("NOFILE", "NPROC", "FSIZE", "CORE")}
    assert confined["given up"] == {
        "dumpable": 0,
        "no new privileges": 1,
        "dies with its parent by": signal.SIGKILL,
    }
    inheritable, permitted, effective, _, ambient = confined["capabilities"]
    assert {inheritable, permitted, effective, ambient} == {"0" * 16}


@pytest.mark.skipif(not FILTERS, reason="this machine has no libseccomp, or no seccomp")
def test_a_session_process_can_do_nothing_to_its_users_other_processes_and_files(confined):
    ways = "signal", "priority", "own priority", "limit", "rename", "delete", "link", "fork"
    assert confined["others"] == dict.fromkeys((*ways, "execute"), "EPERM")


@pytest.mark.skipif(not FILTERS, reason="this machine has no libseccomp, or no seccomp")
def test_a_session_process_has_the_kernel_signal_no_other_for_what_arrives():
    seen, _ = seen_by("aimed")
    assert seen["ended"] is None
    assert set(seen["ways"].values()) == {"EPERM"}


def test_without_a_filter_for_system_calls_the_log_says_what_to_install():
    seen, log = seen_by("unfiltered")
    assert seen["open"] == "EMFILE"
    assert "libseccomp.so.0 is not installed: a session that was taken over could" in log
    assert "install libseccomp2" in log


def test_a_kernel_without_seccomp_is_noticed_before_a_session_starts(monkeypatch):
    monkeypatch.setattr(confinement, "can_filter_system_calls", lambda: False)
    with pytest.raises(Unavailable, match="this kernel has no CONFIG_SECCOMP"):
        SystemCallFilter()


def test_a_session_process_writes_no_octet_to_a_file(confined):
    assert confined["a file"] == "EFBIG"


def test_a_session_process_gets_no_more_memory_than_its_limit(confined):
    assert confined["memory"] == "refused"


def test_signals_for_all_processes_do_not_end_the_spawner():
    assert seen_by("signalled")[0] == {}


def test_sessions_end_with_the_spawner_and_the_front_notices():
    seen, _ = seen_by("without_spawner")
    assert seen["died"] == "it closed its socket"
    assert {ended["how"] for ended in seen["ended"]} == {
        "the process that starts sessions has ended"
    }
    assert seen["refused"] == "the process that starts sessions has ended"
    wait_until_ended(seen["pids"])


def test_spawner_and_sessions_end_with_the_front_whatever_they_compute():
    front = started("without_front")
    seen = json.loads(front.stdout.readline())
    pids = seen["ended with the front"]
    try:
        assert all(map(is_running, pids))
        assert len(pids) == 4
        front.kill()
        front.wait()
        wait_until_ended(pids)
    finally:
        os.kill(seen["heir"], signal.SIGKILL)
        front.communicate()


def test_an_orderly_end_leaves_no_process():
    seen, _ = seen_by("closed")
    assert {ended["how"] for ended in seen["ended"]} == {"the server ends"}
    assert seen["children"] == []
    wait_until_ended(seen["pids"])


def test_200_sessions_leave_no_descriptor_and_no_zombie():
    seen, log = seen_by("many")
    before, after = seen["before"], seen["after"]
    assert before["front"] == after["front"]
    assert before["spawner"] == after["spawner"]
    assert seen["children"] == []
    assert not log


def test_new_modules_are_for_new_sessions_and_broken_ones_for_none():
    seen, _ = seen_by("modules")
    assert seen["shared"] == ["modules", "newer", "newer"]
    assert seen["refused"] == "ValueError: module m: line 1: not YANG"


def test_a_session_without_modules_is_refused_and_its_sockets_are_closed():
    seen, _ = seen_by("too_early")
    assert seen == {"refused": "there are no YANG modules yet", "ends": [0, 0], "left": True}


def test_a_session_that_nobody_waits_for_any_more_is_ended():
    seen_by("cancelled")


def test_a_session_process_cannot_fill_the_log_or_forge_its_records():
    seen, log = seen_by("says")
    assert seen["ended"]["is_orderly"]
    # It does not wait when nobody reads.
    assert seen["answer"] is False
    lines = log.splitlines()
    assert lines[0].endswith("session 1: WARNING toy: an operator's \N{REPLACEMENT CHARACTER}[31m")
    assert all(line.startswith("WARNING session 1: ") for line in lines)
    said = sum(len(line.removeprefix("WARNING session 1: ")) for line in lines)
    assert 1000 < said <= spawner_process.MAX_SAID_OCTETS


@pytest.fixture(scope="module")
def served():
    return seen_by("served")[0]


def test_a_client_that_sends_no_more_is_answered(served):
    assert served["its answers"] == "begun\n{}\n"
    assert served["sends no more"]["is_orderly"]


def test_a_client_that_leaves_ends_what_its_session_computes(served):
    assert served["leaves"]["how"] == "was ended"
    assert served["children"] == []


def test_a_client_that_does_not_read_the_end_is_not_waited_for(served):
    assert served["reads nothing"]["is_orderly"]


def test_a_session_process_that_stays_without_its_client_is_ended(served):
    assert served["session closes and stays"]["how"] == "was ended"


def test_a_crash_is_that_of_one_session(served):
    assert served["crash"]["how"] == "crashed: SIGSEGV"
