"""What becomes of the frames of a stream with two paths: numbered, replicated, eliminated."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.mechanisms.frer import kernel as frer_kernel
from agent.mechanisms.frer.maps import LAYOUT
from agent.mechanisms.frer.model import FrerConfig, FrerState, Generated
from agent.mechanisms.gates.model import GateConfig
from agent.model import AgentError, PortConfig
from tests.kernel.conftest import FAR, MS, SWITCH, inside
from tests.kernel.two_paths import (  # noqa: F401
    FIRST,
    GENERATED,
    HANDLE,
    LAST,
    MATCH,
    PATHS,
    RESET_TIMEOUT_MS,
    STREAM,
    VECTOR,
    first_config,
    frame,
    inject,
    last_config,
    network,
    started_again,
    wire,
    wire_action,
)

FRAMES = range(1000)
CUT = range(500, 800)
# What is behind the last frame that a test looks at: so many numbers later a lost one is known.
TRAILING = range(1000, 1064)
OPEN_NS = MS // 2


def numbers(network) -> list[int]:
    return [each.number for each in network.received()]


def gated(two_classes) -> dict[str, PortConfig]:
    """Both paths' ports, open for the stream in the first half of each millisecond."""
    taprio = two_classes((0b01, OPEN_NS), (0b10, OPEN_NS))
    return {path: PortConfig(path, (GateConfig(taprio),)) for path in PATHS}


def test_each_frame_arrives_once_and_as_it_was_sent(network):
    network.send(FRAMES)
    arrived = network.received()
    assert [each.number for each in arrived] == list(FRAMES)
    assert all(each.is_as_sent and each.sequence is None for each in arrived)
    assert network.total("passed") == network.total("discarded") == len(FRAMES)


class TestGenericMode:
    """As on ports of other drivers than veth, which have the program outside of the driver."""

    @pytest.fixture
    def wire_action(self, monkeypatch) -> str:
        """The generic mode leaves frames out that were redirected."""
        monkeypatch.setattr(frer_kernel, "_NATIVE_DRIVERS", frozenset())
        return "mirror"

    def test_each_frame_arrives_once_and_as_it_was_sent(self, network):
        network.send(FRAMES)
        arrived = network.received()
        assert [each.number for each in arrived] == list(FRAMES)
        assert all(each.is_as_sent and each.sequence is None for each in arrived)

    def test_nothing_is_left_once_it_is_removed(self, network, tmp_path):
        test_nothing_is_left_once_it_is_removed(network, tmp_path)


@pytest.mark.parametrize("octets", [1480, 8980])
def test_a_long_frame_arrives_once_and_as_it_was_sent(network, octets):
    for number in range(10):
        network.talker.send(frame(number, octets=octets))
        time.sleep(0.001)
    arrived = network.received()
    assert [each.number for each in arrived] == list(range(10))
    assert all(each.is_as_sent and each.sequence is None for each in arrived)


def test_no_frame_is_lost_while_one_of_two_gated_paths_is_cut(network, two_classes):
    network.first.apply(first_config(GENERATED) | gated(two_classes))
    cut = {CUT[0]: lambda: wire("a", "loss", "100%"), CUT[-1]: lambda: wire("a")}
    network.send(FRAMES, cut, phase_ns=OPEN_NS + MS // 10)
    arrived = network.received()
    assert [each.number for each in arrived] == list(FRAMES)
    # They were sent while the gates were closed.
    assert {each.at_ns % MS < OPEN_NS for each in arrived} == {True}
    # Of all other numbers a copy came by path a, too.
    counts = network.counts()
    by_a = counts["a"].passed + counts["a"].discarded
    assert by_a == len(FRAMES) - len(CUT) + 1
    assert network.total("lost") == 0


def test_losses_of_one_path_are_made_up_for_by_one_that_is_30_ms_slower(network):
    wire("a", "loss", "20%")
    wire("b", "delay", "30ms")
    network.send(FRAMES)
    assert sorted(numbers(network)) == list(FRAMES)
    counts = network.counts()
    assert counts["b"].passed > 100
    assert counts["b"].out_of_order > 100
    assert network.total("rogue") == network.total("lost") == 0


def test_what_both_paths_lose_is_counted_as_lost(network):
    def lossy(*netem: str) -> None:
        for path in PATHS:
            wire(path, *netem)

    # From the first number that comes on, losses are known.
    network.send([*FRAMES, *TRAILING], {10: lambda: lossy("loss", "20%"), TRAILING[0]: lossy})
    delivered = numbers(network)
    assert len(delivered) == len(set(delivered))
    missing = set(FRAMES) - set(delivered)
    assert len(missing) > 10
    assert network.total("lost") == len(missing)


def test_a_number_far_from_the_others_is_a_rogue(network):
    network.send(range(10))
    inject("a", frame(5000, sequence=5000), frame(5001, sequence=(9 - 64) % (1 << 16)))
    network.send(range(10, 20))
    assert numbers(network) == list(range(20))
    assert network.counts()["a"].rogue == 2
    assert network.counts()["b"].rogue == 0


def test_a_frame_that_is_repeated_passes_once(network):
    network.send(range(10))
    inject("b", *[frame(9, sequence=9)] * 100)
    assert numbers(network) == list(range(10))
    assert network.total("discarded") == 10 + 100


def test_numbering_that_begins_anew_is_taken_after_the_reset_timeout(network):
    network.send(range(300))
    network.first.apply(first_config())
    network.first.apply(first_config(GENERATED))
    network.received()
    # The last of 300 numbers has passed just now, and the first 200 ms of the new ones are rogues.
    network.send(range(300, 600))
    arrived = numbers(network)
    assert arrived == list(range(arrived[0], 600))
    timeout_frames = RESET_TIMEOUT_MS * MS // MS
    assert arrived[0] - 300 < timeout_frames
    assert network.total("rogue") == 2 * (arrived[0] - 300) > 0
    assert network.total("resets") == 1


def test_a_repeated_frame_keeps_the_timer_of_an_individual_function_from_expiring(network):
    """One that is stuck comes for ever: without individual recovery it passes at each time-out."""
    stuck = [frame(9, sequence=9)]

    def passed_of_stuck() -> int:
        network.send(range(10))
        network.received()
        for _ in range(20):
            inject("a", *stuck)
        return len(numbers(network))

    assert passed_of_stuck() >= 20 * 50 // (RESET_TIMEOUT_MS + 50)
    individual = {path: replace(VECTOR, entry=10 + i) for i, path in enumerate(PATHS)}
    network.last.apply(last_config(VECTOR, individual))
    network.first.apply(first_config(replace(GENERATED, reset=True)))
    time.sleep(2 * RESET_TIMEOUT_MS / 1000)
    assert passed_of_stuck() == 0


def test_a_reset_makes_numbers_begin_with_0_and_any_number_is_taken_next(network):
    network.send(range(100))
    network.last.apply(last_config(replace(VECTOR, reset=True)))
    network.first.apply(first_config(replace(GENERATED, reset=True)))
    network.send(range(100, 200))
    assert numbers(network) == list(range(200))
    assert network.first.read()["t"][FrerState].counts[STREAM].resets == 1
    assert network.total("resets") == 1


def test_a_reset_that_stays_true_is_done_once(network):
    network.last.apply(last_config(replace(VECTOR, reset=True)))
    network.send(range(10))
    assert not network.last.apply(last_config(replace(VECTOR, reset=True))).steps
    network.last.apply(last_config(VECTOR))
    network.send(range(10, 20))
    before = network.total("resets")
    network.last.apply(last_config(replace(VECTOR, reset=True)))
    network.send(range(20, 30))
    assert (before, network.total("resets")) == (0, 1)
    assert numbers(network) == list(range(30))


def test_agents_that_are_killed_and_started_again_keep_numbers_histories_and_counts(
    network, tmp_path
):
    def kill() -> None:
        network.first = started_again(network.first, SWITCH, tmp_path / "first")
        network.last = started_again(network.last, FAR, tmp_path / "last")

    network.send(FRAMES, {500: kill})
    assert numbers(network) == list(FRAMES)
    assert network.total("passed") == network.total("discarded") == len(FRAMES)
    assert not network.first.apply(first_config(GENERATED)).steps
    assert not network.last.apply(last_config()).steps


def test_a_function_that_is_changed_while_frames_run_keeps_its_history(network):
    longer = replace(VECTOR, reset_timeout_ms=1000, history_length=32)

    network.send(FRAMES, {500: lambda: network.last.apply(last_config(longer))})
    assert numbers(network) == list(FRAMES)
    assert network.total("passed") == network.total("discarded") == len(FRAMES)


def test_without_recovery_the_listener_gets_both_copies_with_their_tags(network):
    network.last.apply(LAST)
    network.send(range(100))
    arrived = network.received()
    assert [each.number for each in arrived] == [n for n in range(100) for _path in PATHS]
    assert [each.sequence for each in arrived] == [each.number for each in arrived]


def test_frames_without_a_tag_are_discarded_unless_they_are_to_be_taken(network):
    network.first.apply(FIRST)
    network.send(range(10))
    assert numbers(network) == []
    network.last.apply(last_config(replace(VECTOR, take_no_sequence=True)))
    network.send(range(10, 20))
    assert numbers(network) == [n for n in range(10, 20) for _path in PATHS]
    assert network.total("tagless") == 40
    assert network.total("passed") == 20


def test_a_frame_that_ends_in_its_tag_is_counted_as_errored(network):
    inject("a", frame(0, sequence=0)[:22])
    assert numbers(network) == []
    assert network.counts()["a"].errored == 1


def test_the_match_algorithm_knows_the_newest_number_alone(network):
    network.last.apply(last_config(MATCH))
    network.send(range(100))
    inject("a", frame(98, sequence=98))
    assert numbers(network) == [*range(100), 98]
    assert network.total("out_of_order") == 1


def test_frames_of_other_addresses_pass_as_they_are(network):
    other = bytearray(frame(1))
    other[5] ^= 1
    network.talker.send(bytes(other))
    network.talker.send(frame(2)[:12] + frame(2)[16:])
    network.send([3])
    # The VLAN of frames without a tag is flooded, by both paths.
    assert numbers(network) == [2, 2, 3]
    assert network.first.read()["t"][FrerState].counts[STREAM].passed == 1


def test_streams_of_one_generation_entry_share_their_numbers(network):
    other = Generated(HANDLE + 1, STREAM._replace(vlan_id=11), GENERATED.entry)
    network.first.apply(
        FIRST | {"t": PortConfig("t", (FrerConfig(frozenset({GENERATED, other})),))}
    )
    network.last.apply(LAST)
    network.send([0])
    second = bytearray(frame(1))
    second[15] = 11
    network.talker.send(bytes(second))
    network.send([2])
    assert [each.sequence for each in network.received()] == [0, 0, 2, 2]


def test_nothing_is_left_once_it_is_removed(network, tmp_path):
    network.send(range(10))
    network.first.apply({})
    network.last.apply({})
    for namespace, directory in ((SWITCH, "first"), (FAR, "last")):
        with inside(namespace):
            links = subprocess.run(
                ["ip", "link", "show"], check=True, capture_output=True, text=True
            ).stdout
        assert "xdp" not in links
        assert list((tmp_path / directory / "bpf").iterdir()) == []


def attach_another_program(tmp_path, port: str) -> None:
    source, built = tmp_path / "other.c", tmp_path / "other.o"
    source.write_text(
        "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n"
        'SEC("xdp") int firewall(struct xdp_md *c) { return XDP_PASS; }\n'
        'char _license[] SEC("license") = "GPL";\n'
    )
    headers = [f"-I{each}" for each in Path("/usr/include").glob("*-linux-gnu*")]
    subprocess.run(
        ["clang", "-target", "bpf", "-O2", "-g", "-c", source, "-o", built, *headers], check=True
    )
    with inside(SWITCH):
        words = ["ip", "link", "set", "dev", port, "xdpgeneric", "obj", built, "sec", "xdp"]
        subprocess.run(words, check=True)


def test_an_xdp_program_of_others_stays_and_is_named(network, tmp_path):
    network.first.apply({})
    attach_another_program(tmp_path, "t")
    with pytest.raises(AgentError, match=r"^port t: it has the XDP program firewall \(number"):
        network.first.apply(first_config(GENERATED))
    with inside(SWITCH):
        link = subprocess.run(
            ["ip", "-d", "link", "show", "t"], check=True, capture_output=True, text=True
        ).stdout
    assert re.search("name firewall", link)


def test_a_port_whose_driver_hides_vlan_tags_is_refused(network):
    network.first.apply({})
    with inside(SWITCH):
        subprocess.run(["ethtool", "-K", "t", "rxvlan", "on"], check=True, capture_output=True)
    with pytest.raises(AgentError, match=r"^port t: .*ethtool -K t rxvlan off$"):
        network.first.apply(first_config(GENERATED))


def test_a_new_program_takes_the_place_of_a_former_one_at_all_ports(network, tmp_path):
    """The program of an agent that is updated, which has other code."""
    pins = tmp_path / "last" / "bpf" / f"frer-{LAYOUT}"
    (program,) = pins.glob("program-*")
    program.rename(program.with_name("program-0123456789abcdef"))
    before = {path: network.last.read()[path].xdp_program for path in PATHS}
    network.send(FRAMES, {500: lambda: network.last.apply(last_config())})
    after = {path: network.last.read()[path].xdp_program for path in PATHS}
    assert len(set(before.values())) == len(set(after.values())) == 1
    assert not set(before.values()) & set(after.values())
    assert numbers(network) == list(FRAMES)
    assert network.total("discarded") == len(FRAMES)


def test_functions_of_an_agent_whose_maps_had_another_layout_are_set_again(network, tmp_path):
    directory = tmp_path / "last" / "bpf"
    (directory / f"frer-{LAYOUT}").rename(directory / "frer-0")
    network.last = started_again(network.last, FAR, tmp_path / "last")
    network.last.apply(last_config())
    assert [each.name for each in directory.iterdir()] == [f"frer-{LAYOUT}"]
    network.send(range(100))
    assert numbers(network) == list(range(100))
    assert network.total("discarded") == 100


LOADS = """
import sys
from pathlib import Path
from agent.kernel.bpf import PinnedObject
for name in ("frer", "stream_filters"):
    PinnedObject(Path(sys.argv[1]), name, 1).load()
"""


def test_the_agents_programs_need_no_other_rights_than_those_of_the_service():
    """Unlike those of root, their pointers must not differ by the path that led to them."""
    pins = Path(tempfile.mkdtemp(dir="/run"))  # tmp_path is root's alone
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=0777", "bpf", pins], check=True)
    # The checkout may be where only root can read; of loading programs that decides nothing.
    rights = "+bpf,+net_admin,+dac_read_search"
    words = ["--reuid=1000", "--clear-groups", f"--inh-caps={rights}", f"--ambient-caps={rights}"]
    try:
        subprocess.run(
            ["setpriv", *words, sys.executable, "-c", LOADS, pins],
            check=True,
            cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        )
        programs = list(pins.glob("*-1/program-*"))
        assert {each.parent.name for each in programs} == {"frer-1", "stream_filters-1"}
        assert {each.stat().st_uid for each in programs} == {1000}
    finally:
        subprocess.run(["umount", pins], check=True)
        pins.rmdir()
