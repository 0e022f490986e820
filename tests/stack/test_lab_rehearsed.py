"""`cnc lab up --rehearse`: an intent's agents and servers without root, typed as a user does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack.lab_user import CHECKOUT, User

SCHEDULES = CHECKOUT / "schedules"
LINE3, BRIDGED = SCHEDULES / "line3.yaml", SCHEDULES / "guarded.yaml"
SHARES, BESIDE = SCHEDULES / "shares3.yaml", SCHEDULES / "beside3.yaml"
CYCLIC, SHAPED = SCHEDULES / "cqf4.yaml", SCHEDULES / "shapers3.yaml"
GONE_LIMIT_S = 60


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    here = User(tmp_path)
    yield here
    for lab in ("line3", "guarded", "shares3", "beside3", "cqf4", "shapers3"):
        here.cnc("lab", "down", lab)


def test_an_ordinary_user_pushes_watches_and_takes_back(user: User) -> None:
    said = user.up(BRIDGED)
    assert "lab guarded is up, rehearsed" in said
    assert "all switches confirmed" in user.does("push", BRIDGED)
    assert "no change" in user.does("push", BRIDGED)
    assert "on 5 switches: all as planned" in running(user, BRIDGED)
    assert "a push can go ahead" in user.does("doctor", BRIDGED)
    assert "s1" in user.does("path", "set-point", BRIDGED)
    changed = user.home / "changed.yaml"
    changed.write_text(BRIDGED.read_text().replace("payload: 80B", "payload: 200B"))
    assert "all switches confirmed" in user.does("push", changed)
    assert "all switches confirmed" in user.does("rollback")
    assert len(json.loads(user.does("history", "--json"))) == 3
    assert "on 5 switches: all as planned" in running(user, BRIDGED)
    user.does("lab", "down")
    assert user.left_of("guarded") == []


def test_lists_that_are_given_are_pushed_compared_and_taken_back(user: User) -> None:
    user.up(SHARES)
    assert "all switches confirmed" in user.does("push", SHARES)
    assert "no change" in user.does("push", SHARES)
    assert "8 ports on 3 switches: all as planned" in running(user, SHARES)
    assert "a push can go ahead" in user.does("doctor", SHARES)
    changed = user.home / "changed.yaml"
    changed.write_text(SHARES.read_text().replace("share: 30%", "share: 40%"))
    assert "gate control list, from 300 µs on" in user.does("diff", SHARES, changed)
    assert "all switches confirmed" in user.does("push", changed)
    differs = user.cnc("status", SHARES)
    assert differs.returncode == 1
    assert "another gate control list" in differs.stdout
    assert "all switches confirmed" in user.does("rollback")
    assert "all as planned" in running(user, SHARES)
    assert len(json.loads(user.does("history", "--json"))) == 3


def test_streams_beside_windows_that_are_given_are_pushed_compared_and_taken_back(
    user: User,
) -> None:
    user.up(BESIDE)
    assert "all switches confirmed" in user.does("push", BESIDE)
    assert "no change" in user.does("push", BESIDE)
    assert "8 ports on 3 switches: all as planned" in running(user, BESIDE)
    assert "5 set-points" in user.does("show", BESIDE)
    without = user.home / "without.yaml"
    without.write_text(BESIDE.read_text().partition("\nstreams:")[0] + "\nstreams: {}\n")
    assert "all switches confirmed" in user.does("push", without)
    assert "8 ports on 3 switches: all as planned" in running(user, without)
    differs = user.cnc("status", BESIDE)
    assert differs.returncode == 1
    assert "another gate control list" in differs.stdout
    assert "all switches confirmed" in user.does("rollback")
    assert "all as planned" in running(user, BESIDE)


def test_intervals_and_their_stream_gates_are_pushed_compared_and_taken_back(user: User) -> None:
    user.up(CYCLIC)
    assert "all switches confirmed" in user.does("push", CYCLIC)
    assert "no change" in user.does("push", CYCLIC)
    assert "on 4 switches: all as planned" in running(user, CYCLIC)
    assert "a push can go ahead" in user.does("doctor", CYCLIC)
    way = user.does("path", "vibration", CYCLIC)
    assert (
        "priority 4 inside the switch if they come in an even interval of 2 ms, 5 in an odd" in way
    )
    changed = user.home / "changed.yaml"
    changed.write_text(CYCLIC.read_text().replace("shaping: cqf", "shaping: {by: cqf, cycle: 1ms}"))
    assert "all switches confirmed" in user.does("push", changed)
    assert "on 4 switches: all as planned" in running(user, changed)
    differs = user.cnc("status", CYCLIC)
    assert differs.returncode == 1
    assert "another gate control list" in differs.stdout
    assert "interval of 1 ms, 5 in an odd one; planned" in " ".join(differs.stdout.split())
    assert "all switches confirmed" in user.does("rollback")
    assert "all as planned" in running(user, CYCLIC)
    without = user.home / "without.yaml"
    without.write_text(CYCLIC.read_text().partition("\nstreams:")[0] + "\nstreams: {}\n")
    assert "all switches confirmed" in user.does("push", without)
    assert "all as planned" in running(user, without)


def test_idle_slopes_are_pushed_compared_and_taken_back(user: User) -> None:
    user.up(SHAPED)
    assert "all switches confirmed" in user.does("push", SHAPED)
    assert "no change" in user.does("push", SHAPED)
    assert "on 3 switches: all as planned" in running(user, SHAPED)
    assert "a push can go ahead" in user.does("doctor", SHAPED)
    changed = user.home / "changed.yaml"
    shaping = "shaping: {by: cbs, idle-slope: 40Mbps}"
    changed.write_text(SHAPED.read_text().replace("shaping: cbs", shaping))
    # More for cameras leaves less to alarms, whose bound is promised.
    assert "alarm: it may take" in user.cnc("push", changed).stderr
    assert "all switches confirmed" in user.does("push", "--reoptimise", changed)
    assert "all as planned" in running(user, changed)
    # Planned beside what runs, SHAPED keeps the slopes that bounds need by now.
    assert user.cnc("status", "1").returncode != 0
    assert "all switches confirmed" in user.does("rollback")
    assert "all as planned" in running(user, "1")
    without = user.home / "without.yaml"
    text = SHAPED.read_text().partition("\nstreams:")[0] + "\nstreams: {}\n"
    without.write_text(text)
    assert "all switches confirmed" in user.does("push", without)
    assert "all as planned" in running(user, without)


def running(user: User, document: Path | str) -> str:
    """The status of a network once its schedule has begun."""
    deadline = time.monotonic() + GONE_LIMIT_S
    while (done := user.cnc("status", document)).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.5)
    return done.stdout


def test_an_end_station_that_is_managed_is_rehearsed_too(user: User) -> None:
    intent = user.home / "managed.yaml"
    stations = "scanner: {}, sensor: {}, drive: {}, camera: {}, panel: {}"
    managed = f"end-stations: {{plc: {{management: 10.99.0.9}}, {stations}}}"
    text = re.sub(r"end-stations: \[.*\]", managed, BRIDGED.read_text())
    intent.write_text(text)
    user.up(intent)
    nodes = {each["node"] for each in json.loads(user.does("lab", "status", "--json"))}
    assert nodes == {"s1", "s2", "s3", "s4", "s5", "plc"}
    assert "plc" in user.does("push", intent)


def test_two_labs_are_side_by_side_and_each_goes_alone(user: User) -> None:
    user.up(LINE3)
    keys = user.keys
    user.up(BRIDGED)
    addresses = [
        address
        for lab in ("line3", "guarded")
        for node in json.loads(user.does("lab", "status", lab, "--json"))
        for address in node["addresses"]
    ]
    assert len(set(addresses)) == len(addresses) == 8
    user.does("lab", "down", "guarded")
    assert user.left_of("guarded") == []
    user.keys = keys
    assert "all switches confirmed" in user.does("push", LINE3)


@pytest.mark.parametrize(
    "words",
    [
        ["traffic", LINE3],
        ["trace", LINE3],
        ["exec", "s1", "--", "true"],
        ["shell", "s1"],
        ["capture", "s1/s2", "-o", "frames.pcapng"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_frames_or_a_node_is_refused_in_a_sentence(
    words: list[object], rehearsed_line3: User
) -> None:
    refused = rehearsed_line3.cnc("lab", *words)
    assert refused.returncode == 2
    assert refused.stderr.startswith("cnc: lab line3 is rehearsed: its ports are in memory")
    assert "Traceback" not in refused.stderr


@pytest.fixture(scope="module")
def rehearsed_line3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    here = User(tmp_path_factory.mktemp("home"))
    here.up(LINE3)
    yield here
    here.does("lab", "down")


def test_a_lab_that_is_up_is_not_brought_up_again(rehearsed_line3: User) -> None:
    refused = rehearsed_line3.cnc("lab", "up", "--rehearse", LINE3)
    assert refused.returncode == 1
    assert "lab line3 is up already" in refused.stderr
    assert "s3" in rehearsed_line3.does("lab", "status", "line3")


def test_programs_whose_supervisor_was_killed_end_with_the_lab(user: User) -> None:
    user.up(LINE3)
    os.kill(noted(user)["supervisor"]["pid"], signal.SIGKILL)
    assert "tsn-agent is gone" not in user.does("lab", "status")
    user.does("lab", "down")
    assert user.left_of("line3") == []


def test_a_program_that_has_ended_is_gone_in_the_status(user: User) -> None:
    user.up(LINE3)
    os.kill(noted(user)["programs"]["s2"]["tsn-agent"]["pid"], signal.SIGKILL)
    done = user.cnc("lab", "status")
    assert done.returncode == 1
    assert "tsn-agent is gone" in done.stdout


def noted(user: User) -> Any:
    """The processes of the lab line3, as it has noted them."""
    return json.loads((user.home / ".local/state/cnc/labs/line3/rehearsal.json").read_text())


def test_nothing_is_left_of_a_start_that_is_killed(user: User) -> None:
    argv, environment = user.command("lab", "up", "--rehearse", LINE3)
    with subprocess.Popen(argv, env=environment, cwd=CHECKOUT) as starting:
        deadline = time.monotonic() + GONE_LIMIT_S
        while not any("tsn-agent" in each for each in user.left_of("line3")):
            assert starting.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        starting.kill()
    while left := user.left_of("line3"):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
