"""Device profiles in an intent: what they state holds for a plan, what they lack is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc import intent as intents
from cnc import profiles
from cnc.errors import InputError
from cnc.keys.profile import ProfileKeys
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import StreamFilters
from cnc.model import CommitStyle, GateMode, GateTree, PortRef, Profile
from cnc.planner import plan
from cnc.plans import file as planfile

NETWORK = """\
name: pair
forwarding: bridged
addresses: {macs: 03:54:53:4e:07:00 - 03:54:53:4e:07:ff, vlans: 10}
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 2us}, clock-error: 1us,
           talker-interference: none, recovery: none, gate-margin: 0ns}
classes:
  cyclic: {traffic-class: 5, priority: 5, role: scheduled}
  best-effort: {traffic-class: 1, priority: 0, role: best-effort, max-frame: 1522B}
switches:
  s1: {management: 192.0.2.1, ports: {t: {number: 1}, s2: {number: 2}}, profile: netconfd}
  s2: {management: 192.0.2.2, ports: [l, s1]}
end-stations: [talker, listener]
links: [[talker/eth0, s1/t], [s1/s2, s2/s1], [s2/l, listener/eth0]]
streams:
  angles: {talker: talker, listeners: [listener], class: cyclic, period: 1ms, payload: 100B,
           max-latency: 200us}
"""
OWN = "gates-tree: ieee802-dot1q-sched\ncommit: running\nforwards: true\n"
OWN_PROFILE = ("profile: netconfd", "profile: ./own.yaml")


def network(folder: Path, *changes: tuple[str, str], own: str = OWN) -> Path:
    text = NETWORK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "own.yaml").write_text(own)
    path = folder / "network.yaml"
    path.write_text(text)
    return path


def profile(path: Path, switch: str = "s1") -> Profile | None:
    return intents.load(path).network.profile(switch)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        intents.load(path)
    return str(refused.value)


@pytest.mark.parametrize("name", profiles.names())
def test_each_profile_that_comes_with_the_suite_is_one_by_the_schema(name: str) -> None:
    its = ProfileKeys.model_validate(profiles.keys_of(name)).value()
    assert its.name == name


def test_a_switch_without_a_profile_runs_our_agent(tmp_path: Path) -> None:
    assert profile(network(tmp_path), "s2") is None


def test_a_switch_has_the_profile_of_the_name_and_its_ports_their_numbers(tmp_path: Path) -> None:
    its = profile(network(tmp_path))
    assert its
    assert (its.name, its.commit) == ("netconfd", CommitStyle.CONFIRMED)
    assert its.port_numbers == (("s2", 2), ("t", 1))


def test_a_file_beside_the_intent_is_a_profile_of_its_name(tmp_path: Path) -> None:
    its = profile(network(tmp_path, OWN_PROFILE))
    assert its
    assert (its.name, its.gates, its.reverts) == ("own", GateTree.INTERFACE, False)


def test_an_error_in_a_file_beside_the_intent_is_named_by_its_own_line(tmp_path: Path) -> None:
    path = network(tmp_path, OWN_PROFILE, own="commit: soon\n" + OWN[:32])
    assert f"{tmp_path / 'own.yaml'}:1: commit" in refusal(path)


def test_a_name_that_is_none_lists_those_there_are(tmp_path: Path) -> None:
    said = refusal(network(tmp_path, ("profile: netconfd", "profile: lan9668")))
    assert "network.yaml:10: switches.s1.profile" in said
    assert "ieee-2018, ieee-2023, netconfd; or a file of your own beside the intent" in said


def test_a_plan_keeps_the_profile_without_the_file(tmp_path: Path) -> None:
    path = network(tmp_path, OWN_PROFILE, own=OWN + "sets-classes: true\n")
    text = planfile.dump(plan(intents.load(path)))
    (tmp_path / "own.yaml").unlink()
    its = planfile.parse(text, "plan").intent.network.profile("s1")
    assert its
    assert its.name == "own"


def test_a_switch_with_a_profile_runs_its_lists_without_a_kernel_of_ours(tmp_path: Path) -> None:
    bridges = intents.load(network(tmp_path)).network.bridges
    assert bridges["s1"].gate_mode is GateMode.FULL_OFFLOAD
    assert bridges["s2"].gate_mode is GateMode.SOFTWARE


def test_the_tighter_limit_of_profile_and_port_holds(tmp_path: Path) -> None:
    path = network(
        tmp_path,
        OWN_PROFILE,
        ("s2: {number: 2}", "s2: {number: 2, gate-entries-max: 16}"),
        own=OWN + "sets-classes: true\ngate-entries-max: 64\ngate-tick: 8ns\n",
    )
    links = intents.load(path).network.links
    assert links[PortRef("s1", "s2")].gate_entries_max == 16
    assert links[PortRef("s1", "t")].gate_entries_max == 64
    assert links[PortRef("s1", "t")].gate_tick_ns == 8
    assert links[PortRef("s2", "l")].gate_entries_max == 0


def test_a_plan_opens_and_closes_gates_at_ticks_of_the_profile(tmp_path: Path) -> None:
    path = network(
        tmp_path,
        OWN_PROFILE,
        own=OWN + "sets-classes: true\ngate-tick: 64ns\n",
    )
    gates = plan(intents.load(path)).gates[PortRef("s1", "s2")]
    assert [each.interval_ns % 64 for each in gates.entries] == [0] * len(gates.entries)


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ([("management: 192.0.2.1, ", "")], 10, "found netconfd, and no management"),
        ([("forwarding: bridged", "forwarding: routed")], 10, "and forwarding: routed"),
        ([OWN_PROFILE, ("traffic-class: 5", "traffic-class: 6")], 7, "found 6, and switch s1"),
        ([("profile: netconfd", "profile: netconfd, gates: software")], 10, "and a profile"),
        ([("profile: netconfd", "gates: software")], 10, "no such key without a profile"),
    ],
)
def test_what_a_profile_does_not_have_is_refused_by_its_line(
    changes: list[tuple[str, str]], line: int, said: str, tmp_path: Path
) -> None:
    found = refusal(network(tmp_path, *changes))
    assert f"network.yaml:{line}: " in found
    assert said in found


def test_streams_through_a_switch_that_takes_no_filtering_entries_are_refused(
    tmp_path: Path,
) -> None:
    path = network(
        tmp_path,
        OWN_PROFILE,
        own=OWN.replace("forwards: true", "sets-classes: true"),
    )
    assert "own, which takes no filtering entries, and streams" in refusal(path)


def test_a_switch_with_a_profile_polices_nothing_where_nothing_is_stated(tmp_path: Path) -> None:
    made = plan(intents.load(network(tmp_path)))
    forwarding = bridge_forwardings(made)
    assert forwarding["s1"][StreamFilters].filters == ()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([("forwarding: bridged", "forwarding: bridged\npolicing: drop")], 3),
        ([("role: scheduled", "role: scheduled, policing: count")], 7),
        ([("profile: netconfd", "profile: netconfd, stream-filters-max: 9")], 10),
    ],
)
def test_what_it_is_to_police_is_refused_by_its_line(
    changes: list[tuple[str, str]], line: int, tmp_path: Path
) -> None:
    found = refusal(network(tmp_path, *changes))
    assert f"network.yaml:{line}: " in found
    assert "and a profile of switch s1" in found
