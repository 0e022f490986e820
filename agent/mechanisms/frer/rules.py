"""Replication and elimination at a port: compared with what is asked, and put into words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent import composition
from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.mechanisms.frer.model import (
    Counts,
    FrerConfig,
    FrerState,
    Generated,
    Recovery,
)
from agent.model import Clock, PortConfig, PortState
from agent.wording import counted, first_few

NAME = "frer"


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
    return _sole_content(state).contributions(as_is(state))


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = as_is(state), config[FrerConfig]
    if before == after:
        return
    yield _sole_content(state).change(
        before,
        after,
        description=f"frame replication and elimination: {_extent(after)}",
        difference=_difference(before, after),
    )


def repair(port: str, ifindex: int) -> Change:
    """The functions of the port are right, but it runs the program of an earlier version."""
    return composition.repair(
        FrerFunctions(port, ifindex),
        f"port {port}: replace the XDP program of an earlier version",
        "the XDP program is that of an earlier version",
    )


def applied(
    state: PortState, contents: Sequence[FrerConfig], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these functions, which have met no frame."""
    functions = contents[0] if contents else FrerConfig()
    counts = {each.address: Counts() for each in functions.streams}
    return state.with_part(FrerState(functions.generated, functions.recovered, counts))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, FrerFunctions(state.name, state.ifindex))


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
    return first_few(differences, "more difference")


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
    if watched := function.latent_errors:
        parameters.append(
            f"latent-error-detection by {watched.paths} paths each {watched.period_ms} ms, "
            f"difference {watched.difference}, reset each {watched.reset_period_ms} ms"
        )
    return f"sequence-recovery {function.entry} ({', '.join(parameters)})"
