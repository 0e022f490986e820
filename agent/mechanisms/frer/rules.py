"""Replication and elimination at a port: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.mechanism import Contributions
from agent.mechanisms.frer.model import (
    Counts,
    FrerConfig,
    FrerState,
    Generated,
    Recovery,
)
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted

NAME = "frer"
_NAMED = 3  # of many differences


@dataclass(frozen=True, slots=True)
class FrerFunctions(KernelObject):
    """What is done with the frames of streams that come in by one port; an `FrerConfig`.

    Copies are eliminated before a frame is forwarded to where copies meet, and until none is.
    """

    set_in: ClassVar[Stage] = Stage.CLASSIFY
    removed_in: ClassVar[Stage] = Stage.IDENTIFY


def as_is(state: PortState) -> FrerConfig:
    part = state[FrerState]
    return FrerConfig(part.generated, part.recovered)


def contributions(state: PortState) -> Contributions:
    if functions := as_is(state):
        yield _target(state), _contribution(state, functions)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = as_is(state), config[FrerConfig]
    if before == after:
        return
    yield Change(
        port=state.name,
        target=_target(state),
        before=(_contribution(state, before),) if before else (),
        after=(_contribution(state, after),) if after else (),
        description=f"port {state.name}: frame replication and elimination: {_extent(after)}",
        difference=_difference(before, after),
    )


def repair(port: str, ifindex: int) -> Change:
    """The functions of the port are right, but it runs the program of a former version."""
    return Change(
        port=None,
        target=FrerFunctions(port, ifindex),
        before=(),
        after=(),
        description=f"port {port}: replace the XDP program of a former version",
        difference="the XDP program is that of a former version",
    )


def applied(
    state: PortState, contents: Sequence[FrerConfig], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these functions, which have met no frame."""
    functions = contents[0] if contents else FrerConfig()
    counts = {each.address: Counts() for each in functions.streams}
    return state.with_part(FrerState(functions.generated, functions.recovered, counts))


def _target(state: PortState) -> FrerFunctions:
    return FrerFunctions(state.name, state.ifindex)


def _contribution(state: PortState, functions: FrerConfig) -> Contribution:
    return Contribution(NAME, state.name, 0, functions)


def _extent(functions: FrerConfig) -> str:
    if not functions:
        return "none"
    return (
        f"{counted(len(functions.generated), 'stream')} numbered, "
        f"{len(functions.recovered)} recovered"
    )


def _difference(kernel: FrerConfig, desired: FrerConfig) -> str:
    """The first differences, by stream."""
    wanted, present = _functions(desired), _functions(kernel)
    differences = [
        *(
            f"stream {handle} is not {wanted[handle]}"
            for handle in sorted(wanted)
            if wanted[handle] != present.get(handle)
        ),
        *(
            f"stream {handle} is {present[handle]}, which is not configured"
            for handle in sorted(present.keys() - wanted.keys())
        ),
    ]
    more = len(differences) - _NAMED
    named = ", ".join(differences[:_NAMED])
    return f"{named}, and {counted(more, 'more difference')}" if more > 0 else named


def _functions(config: FrerConfig) -> dict[int, str]:
    """What is done with the frames of each stream, by handle."""
    return {
        **{each.handle: _generation(each) for each in config.generated},
        **{
            each.handle: f"recovered ({each.address}) by "
            + " and ".join(_recovery(function) for function in each.functions)
            for each in config.recovered
        },
    }


def _generation(stream: Generated) -> str:
    reset = ", reset" if stream.reset else ""
    return f"numbered ({stream.address}) by sequence-generation {stream.entry}{reset}"


def _recovery(function: Recovery) -> str:
    parameters = [function.algorithm]
    if function.history_length:
        parameters.append(f"history-length {function.history_length}")
    parameters.append(f"reset-timeout {function.reset_timeout_ms} ms")
    if function.take_no_sequence:
        parameters.append("take-no-sequence")
    if function.reset:
        parameters.append("reset")
    return f"sequence-recovery {function.entry} ({', '.join(parameters)})"
