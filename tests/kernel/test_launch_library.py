"""libtsn-talker: a program in C sends a stream when the agent says, and follows a push."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.launch_time.desired import configured
from agent.mechanisms.launch_time.model import LaunchTime
from agent.mechanisms.talker_offsets.model import OffsetConfig, OffsetTable, Transmission
from agent.model import PortConfig
from agent.switch import Switch
from cnc.talker import tai_ns
from cnc.talker.clock import tai_offset_ns
from tests.kernel.conftest import FAR, SO_RCVBUFFORCE, SO_TIMESTAMPNS, inside

LIBRARY = Path(__file__).parents[2] / "agent" / "talker_library"
PROGRAM = Path(__file__).with_name("launch_talker.c")
PERIOD_NS = 10_000_000
NS_PER_S = 1_000_000_000
FRAMES = 300
STAMP_NS = 1_000
PRIORITY = 5
PORT = 5005

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled as with what pkg-config says of an installed library."""
    root = tmp_path_factory.mktemp("library")
    subprocess.run([LIBRARY / "compile", root, "1.0"], check=True)
    (description,) = root.rglob("tsn-talker.pc")
    found = root / "launch_talker"
    libraries = description.parent.parent
    subprocess.run(
        [
            *("gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-o", found, PROGRAM),
            *(f"-I{root}/usr/include", f"-L{libraries}", "-ltsn-talker", f"-Wl,-rpath,{libraries}"),
        ],
        check=True,
    )
    assert "-ltsn-talker" in description.read_text()
    return found


@pytest.fixture
def push(ports, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Ask p1 for the offset of the stream "motor", with a launch time or without."""
    opened = KernelPorts(mechanisms(tmp_path))
    leaves = {"mode": "software", "delta-ns": 400_000, "priority": [PRIORITY]}
    launch = configured({"tsn-end-station:launch-time": leaves}, None)

    def apply(offset_ns: int, *, with_launch: bool = True) -> None:
        base_time_ns = (tai_ns() // PERIOD_NS + 20) * PERIOD_NS
        sent = Transmission("motor", 1, PERIOD_NS, offset_ns, 100, PRIORITY, 46, ("l1",))
        other = Transmission('ähre "1"', 1, PERIOD_NS, 0, 100, PRIORITY, None, ())
        offsets = OffsetConfig(OffsetTable(base_time_ns, (other, sent)))
        its = launch if with_launch else LaunchTime()
        Switch(opened).apply({"p1": PortConfig("p1", (its, offsets))})

    yield apply
    opened.close()


@pytest.fixture
def listener(ports) -> Iterator[socket.socket]:
    with inside(FAR):
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with opened:
        opened.bind(("10.0.1.2", PORT))
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        opened.settimeout(0.1)
        yield opened


def late_ns(listener: socket.socket) -> dict[int, int]:
    """How much later than its instant each frame came, by the instant that it carries."""
    found = {}
    while True:
        try:
            data, ancillary, _, _ = listener.recvmsg(100, 64)
        except TimeoutError:
            return found
        seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
        instant_ns = int.from_bytes(data, sys.byteorder)
        assert instant_ns not in found
        found[instant_ns] = seconds * NS_PER_S + nanoseconds + tai_offset_ns() - instant_ns


def talking(program: Path, offsets: Path, stream: str = "motor") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [program, offsets, stream, "10.0.1.2", str(PORT), str(FRAMES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )


def test_frames_leave_at_their_instants_before_and_after_a_push(push, program, listener, tmp_path):
    push(1_234_000)
    time.sleep(0.3)
    with talking(program, tmp_path / "offsets.json") as talker:
        time.sleep(0.5)
        push(7_654_000)
        said, complaint = talker.communicate(timeout=600)
    assert (said, complaint) == ("p1 0 missed 0 refused\n", "")
    late = late_ns(listener)
    assert len(late) == FRAMES
    assert {instant_ns % PERIOD_NS for instant_ns in late} == {1_234_000, 7_654_000}
    assert len({instant_ns // PERIOD_NS for instant_ns in late}) == FRAMES, "one in each period"
    assert all(0 <= each <= STAMP_NS for each in late.values())


@pytest.mark.parametrize(
    ("with_launch", "reason"),
    [
        (False, "motor: its frames would meet no etf qdisc"),
        (True, "motion: the agent publishes no such stream"),
    ],
)
def test_what_is_missing_is_told(push, program, tmp_path, with_launch, reason):
    stream = reason.partition(":")[0]
    push(0, with_launch=with_launch)
    with talking(program, tmp_path / "offsets.json", stream) as talker:
        _, complaint = talker.communicate(timeout=600)
    assert talker.returncode == 1
    assert complaint.startswith(reason)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "tsn-offsets/2"}', "{" * 1000])
def test_a_file_that_is_none_of_the_agent_is_refused(ports, program, tmp_path, content):
    (tmp_path / "offsets.json").write_text(content)
    with talking(program, tmp_path / "offsets.json") as talker:
        _, complaint = talker.communicate(timeout=600)
    assert complaint.startswith("motor: the offsets cannot be read")
