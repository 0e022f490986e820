"""How many frames the kernel sends in one run of a queue: what gates of mode software count on.

A run ends after a quota of frames (net/sched/sch_generic.c, __qdisc_run). The kernel turns to what
else waits on that processor then, and what is left of a window is late once more. The quota is
net.core.dev_weight times net.core.dev_weight_tx_bias, 64 times 1 by default, of the whole machine
(net/core/sysctl_net_core.c). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.mechanism import Contributions
from agent.mechanisms.gates.model import (
    NAME,
    TRANSMIT_QUOTA_FRAMES,
    GateConfig,
    GateState,
    Taprio,
    TaprioMode,
)
from agent.model import PortConfig, PortState
from agent.wording import counted

SYSCTL = "net.core.dev_weight_tx_bias"


@dataclass(frozen=True, slots=True)
class TransmitQuota(KernelObject):
    """The quota of this machine; contents are the frames that a port asks for.

    It is in force before the gates that count on it begin to close, and until they are open.
    """

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


TRANSMIT_QUOTA = TransmitQuota()


def contributions(state: PortState) -> Contributions:
    """A port with gates asks for it whatever the quota is; when none does any more, it goes."""
    for each in _asked(state, state[GateState].taprio):
        yield TRANSMIT_QUOTA, each


def changes(config: PortConfig, state: PortState) -> Iterator[Change]:
    """Where the quota is too small, which is a difference of the port; and where the port begins or
    ceases to ask for it, which is none."""
    before = _asked(state, state[GateState].taprio)
    after = _asked(state, config[GateConfig].taprio)
    quota = state[GateState].transmit_quota
    is_short = bool(after) and quota is not None and quota.frames < TRANSMIT_QUOTA_FRAMES
    if before == after and not is_short:
        return
    asked = f"{counted(TRANSMIT_QUOTA_FRAMES, 'frame')} in one run of a queue"
    found = f"the kernel sends {quota.frames if quota else 0} and not {asked}"
    yield Change(
        port=state.name if is_short else None,
        target=TRANSMIT_QUOTA,
        before=before,
        after=after,
        description=f"port {state.name}: {'ask' if after else 'no longer ask'} for {asked}",
        difference=f"{found} ({SYSCTL})",
    )


def repair() -> Change:
    """Take back what an agent has left that was killed before its gates were there."""
    description = f"no port has gates: reset {SYSCTL}"
    return Change(None, TRANSMIT_QUOTA, (), (), description, f"{SYSCTL} was left")


def _asked(state: PortState, taprio: Taprio | None) -> tuple[Contribution, ...]:
    """What these gates ask for, where the agent can set it."""
    quota = state[GateState].transmit_quota
    if (
        taprio is None
        or taprio.mode is not TaprioMode.SOFTWARE
        or not (quota and quota.is_settable)
    ):
        return ()
    return (Contribution(NAME, state.name, 0, TRANSMIT_QUOTA_FRAMES),)
