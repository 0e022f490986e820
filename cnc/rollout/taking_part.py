"""How one switch takes part in a change: by what it can do, so that the steps of a rollout are the
same for all.

    Ours       keeps the id of the rollout, and goes back by itself unless confirmed
    Compared   keeps no id: what it has stored tells whether it has the change; goes back, too
    Outright   keeps no id, and stays with what it has committed: going back is one more edit

Those that stay are committed last, one after the other: when all others wait for confirmation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from cnc.data_tree.reply import Element
from cnc.data_tree.state import SwitchState
from cnc.model import NOTHING_STORED, CommitStyle, PortSettings, StoredGates
from cnc.rollout.compare import is_configured
from cnc.rollout.history import SwitchChange
from cnc.switch.device import Device
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId, known_part


class Ours:
    """A switch that runs our agent."""

    reverts = True

    def __init__(self, change: SwitchChange, rollout: str, base_time_ns: int) -> None:
        self._change = change
        self._rollout = rollout
        self._base_time_ns = base_time_ns

    def config(self, rollout_id: RolloutId, state: SwitchState, *, takes_over: bool) -> Element:
        """The edit of the change, as far as the switch has the leaves."""
        its = known_part(rollout_id, state, takes_over=takes_over)
        return edit_config(self._change.after, self._base_time_ns, self._change.before, its)

    def stage(self, device: Device, config: Element) -> None:
        """Prepare the change; nothing acts yet."""
        device.edit(config)

    def commit(self, device: Device, timeout_s: int) -> None:
        """Have it act; a switch that `reverts` waits so long for `confirm`."""
        device.commit_confirmed(timeout_s, self._rollout)

    def has(self, device: Device) -> bool:
        """Whether the change is in the running configuration."""
        its = device.rollout_id()
        return its is not None and its.id == self._rollout

    def confirm(self, device: Device) -> None:
        """Have it stay."""
        device.confirm(self._rollout)

    def cancel(self, device: Device) -> None:
        """Go back, if the switch has the change: else it has gone back, or has never had it."""
        if self.has(device):
            device.cancel_commit(self._rollout)

    def save(self, device: Device) -> None:
        """Have it outlive a reboot."""
        save_startup(device)


class Compared(Ours):
    """A switch with a profile and confirmed commits."""

    def config(self, _rollout_id: RolloutId, _state: SwitchState, *, takes_over: bool) -> Element:  # noqa: ARG002
        return edit_config(self._change.after, self._base_time_ns, self._change.before)

    def commit(self, device: Device, timeout_s: int) -> None:
        # A server may fail to revert what is locked: netconfd 2.13 does, and says ok. As long as
        # a commit waits for its confirmation no other session gets the lock (RFC 6241 7.5).
        device.release("running")
        super().commit(device, timeout_s)

    def has(self, device: Device) -> bool:
        ports = self._change.after
        stored = device.stored(ports).ports
        return all(
            is_configured(its, stored.get(port), self._base_time_ns) for port, its in ports.items()
        )


class Outright(Compared):
    """A switch with a profile whose commits, or edits of running, stay."""

    reverts = False

    def __init__(self, change: SwitchChange, rollout: str, base_time_ns: int) -> None:
        super().__init__(change, rollout, base_time_ns)
        self._staged: Element | None = None

    def stage(self, device: Device, config: Element) -> None:
        self._staged = config
        if self._has_candidate:
            device.edit(config)

    def commit(self, device: Device, timeout_s: int) -> None:  # noqa: ARG002
        if self._has_candidate:
            device.commit()
        elif self._staged is not None:
            device.edit_running(self._staged)

    def confirm(self, device: Device) -> None:
        """It has stayed already."""

    def cancel(self, device: Device) -> None:
        if not self.has(device):
            return
        for config in self._former(device):
            if self._has_candidate:
                device.take_candidate()
                device.edit(config)
                device.commit()
            else:
                device.edit_running(config)

    @property
    def _has_candidate(self) -> bool:
        profile = self._change.management.profile
        return profile is None or profile.commit is not CommitStyle.RUNNING

    def _former(self, device: Device) -> Iterator[Element]:
        """Edits that put back what the switch had, each list with the base time that it had."""
        now = device.stored(self._change.after).ports
        by_base_time: defaultdict[int, dict[str, PortSettings]] = defaultdict(dict)
        for port, before in self._change.before.items():
            base_time_ns = (before or NOTHING_STORED)[StoredGates].base_time_ns
            by_base_time[base_time_ns][port] = self._change.previous(port)
        for base_time_ns, ports in by_base_time.items():
            yield edit_config(ports, base_time_ns, now)


def save_startup(device: Device) -> None:
    """Have what a switch runs outlive a reboot; it does so by itself where it has no startup."""
    if device.profile is None or device.profile.has_startup:
        device.save_startup()


def taking_part(change: SwitchChange, rollout: str, base_time_ns: int) -> Ours:
    """How a switch takes part in the rollout of this id, whose lists begin at a base time."""
    profile = change.management.profile
    if profile is None:
        return Ours(change, rollout, base_time_ns)
    kind = Compared if profile.reverts else Outright
    return kind(change, rollout, base_time_ns)


def in_turns(parts: Mapping[str, Ours]) -> Iterator[Collection[str]]:
    """Which switches are to commit at once, one such set after the other."""
    if reverting := [name for name, its in parts.items() if its.reverts]:
        yield reverting
    for name in sorted(parts.keys() - {*reverting}):
        yield [name]
