"""How switches take part in a rollout by what they can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.model import (
    NS_PER_S,
    CommitStyle,
    GateControlList,
    GateEntry,
    GateMode,
    GateTree,
    Management,
    PortConfiguration,
    PortGates,
    PortSettings,
    Profile,
    StoredGates,
    StoredPort,
)
from cnc.rollout.history import SwitchChange
from cnc.rollout.preflight.profiles import lost
from cnc.rollout.taking_part import in_turns, save_startup, taking_part
from cnc.rollout.timing import base_time_ns
from cnc.switch.device import StoredSwitch

PROFILE = Profile("of-the-test", GateTree.BRIDGE_PORT, CommitStyle.CANDIDATE)
BASE_NS, FORMER_NS = 2_000_000_000, 1_000_000_000


def configuration(interval_ns: int) -> PortConfiguration:
    gates = GateControlList(2 * interval_ns, (GateEntry(1, interval_ns), GateEntry(2, interval_ns)))
    return PortConfiguration(8, tuple(range(8)), GateMode.FULL_OFFLOAD, gates, {})


FORMER, NEW = configuration(1000), configuration(2000)


def stored(its: PortConfiguration, at_ns: int) -> StoredPort:
    return StoredPort.of(StoredGates(configuration=its, base_time_ns=at_ns))


def change(commit: CommitStyle | None) -> SwitchChange:
    profile = replace(PROFILE, commit=commit) if commit else None
    return SwitchChange(
        Management("192.0.2.1", profile=profile),
        {"p1": stored(FORMER, FORMER_NS)},
        {"p1": PortSettings.of(PortGates(NEW))},
    )


class Device:
    """Remembers what is asked of it; its running datastore is `running`."""

    name = "s1"

    def __init__(self, running: StoredPort, profile: Profile | None = None) -> None:
        self.running = running
        self.profile = profile
        self.asked: list[str] = []
        self.edits: list[str] = []

    def stored(self, _ports: object) -> StoredSwitch:
        return StoredSwitch({"p1": self.running}, None)

    def __getattr__(self, name: str) -> object:
        def ask(*its: object) -> None:
            self.asked.append(name)
            self.edits += [_seconds(each) for each in its if name.startswith("edit")]

        return ask


def _seconds(config: object) -> str:
    return next(each.text for each in config.iter("{*}seconds"))


def test_switches_whose_commits_stay_commit_last_one_after_the_other() -> None:
    parts = {
        name: taking_part(change(commit), "id", BASE_NS)
        for name, commit in {
            "a": CommitStyle.CANDIDATE,
            "b": None,
            "c": CommitStyle.RUNNING,
            "d": CommitStyle.CONFIRMED,
        }.items()
    }
    assert [sorted(names) for names in in_turns(parts)] == [["b", "d"], ["a"], ["c"]]


@pytest.mark.parametrize(
    ("running", "has_it"),
    [
        (stored(NEW, BASE_NS), True),
        (stored(NEW, FORMER_NS), False),
        (stored(FORMER, BASE_NS), False),
    ],
    ids=["the list at its base time", "another base time", "another list"],
)
def test_a_switch_without_ids_is_recognised_by_what_it_stores(
    running: StoredPort, has_it: bool
) -> None:
    its = taking_part(change(CommitStyle.CONFIRMED), "id", BASE_NS)
    assert its.has(Device(running)) is has_it


@pytest.mark.parametrize(
    ("commit", "asked"),
    [
        (CommitStyle.CANDIDATE, ["take_candidate", "edit", "commit"]),
        (CommitStyle.RUNNING, ["edit_running"]),
        (CommitStyle.CONFIRMED, ["cancel_commit"]),
    ],
)
def test_a_change_is_reverted_by_the_way_of_the_switch(
    commit: CommitStyle, asked: list[str]
) -> None:
    device = Device(stored(NEW, BASE_NS))
    taking_part(change(commit), "id", BASE_NS).cancel(device)
    assert device.asked == asked
    # With the base time that the former list had.
    assert device.edits == ([] if commit is CommitStyle.CONFIRMED else ["1"])


@pytest.mark.parametrize("commit", CommitStyle)
def test_a_switch_without_the_change_is_left_alone(commit: CommitStyle) -> None:
    device = Device(stored(FORMER, FORMER_NS))
    taking_part(change(commit), "id", BASE_NS).cancel(device)
    assert device.asked == []


def test_the_lock_of_running_is_released_before_a_commit_that_a_switch_may_revert() -> None:
    device = Device(stored(FORMER, FORMER_NS))
    taking_part(change(CommitStyle.CONFIRMED), "id", BASE_NS).commit(device, 9)
    assert device.asked == ["release", "commit_confirmed"]


def test_startup_is_saved_where_the_profile_has_one() -> None:
    for profile, asked in (
        (None, ["save_startup"]),
        (PROFILE, []),
        (replace(PROFILE, has_startup=True), ["save_startup"]),
    ):
        device = Device(stored(NEW, BASE_NS), profile)
        save_startup(device)
        assert device.asked == asked


def test_the_base_time_is_at_least_as_far_ahead_as_the_profile_wants() -> None:
    now_ns = 100 * NS_PER_S
    assert base_time_ns(now_ns, 0, [1_000_000], 15 * NS_PER_S) == 115 * NS_PER_S
    assert base_time_ns(now_ns, 0, [1_000_000], 1) == 107 * NS_PER_S


def test_what_is_lost_follows_from_the_profile() -> None:
    all_of_it = list(lost(PROFILE))
    assert any("is reverted only while the controller lives" in each for each in all_of_it)
    able = replace(PROFILE, commit=CommitStyle.CONFIRMED, reads_back=True, reports_clock=True)
    assert len(all_of_it) == 5
    assert len(list(lost(able))) == 2
