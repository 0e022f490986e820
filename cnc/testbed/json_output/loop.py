"""What `cnc lab loop` prints."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from cnc.json_output.document import Document
from cnc.json_output.planning import LoopDelay
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.measure import Spread


class StepResponse(Document):
    """A step response at the instants of samples. null: the output never came so far, or it went
    beyond all numbers."""

    rise_time_ns: int | None
    """Until the first sample at 90 % of the step."""
    overshoot: float | None
    """How far the output went beyond the step, in parts of it."""
    settling_time_ns: int | None
    """Until the first sample from which on all are within 2 % of the step."""
    absolute_error_s: float | None
    """The integral of the error's amount (IAE), in parts of the step times seconds."""


class PathError(Document):
    """How far the output was from its path at the samples, in its unit. null: it went beyond all
    numbers."""

    root_mean_square: float | None
    maximum: float | None


class FurthestApart(Document):
    """Those two clocks of the network that were furthest apart while the loop was closed, by their
    nodes; exact, in true time."""

    behind: str
    ahead: str
    apart_ns: int


class LoopRun(Document):
    """`cnc lab loop`."""

    loop: str = Field(validation_alias=AliasPath("curve", "loop", "name"))
    platform: Platform
    """`exact`: the loop is judged, since only sleeping takes time."""
    planned: LoopDelay
    """What the plan says that the loop takes at most."""
    deadline_ns: int = Field(validation_alias=AliasPath("curve", "loop", "deadline_ns"))
    delay: Spread | None
    """From the planned instant of a sample until its answer was at the plant; null: none came."""
    periods: Annotated[int, BeforeValidator(len)] = Field(
        validation_alias=AliasPath("curve", "periods")
    )
    missed: int = Field(validation_alias=AliasPath("curve", "missed"))
    """Periods at whose deadline another command acted than the answer to their sample."""
    lost_samples: int = Field(validation_alias=AliasPath("curve", "lost_samples"))
    lost_commands: int = Field(validation_alias=AliasPath("curve", "lost_commands"))
    responses: list[StepResponse]
    """One for each step; none of a loop that follows a path."""
    path_error: PathError | None
    """Of a loop that follows a path; null: it follows none."""
    unit: str = Field(validation_alias=AliasPath("curve", "loop", "unit"))
    """That of the output and of `path_error`: `m` of a conveyor and an arm, else empty."""
    good: int | None
    """How many of the responses are within what the intent accepts, or 1 if the path error is;
    null: it says nothing of that."""
    is_undisturbed: bool
    """Whether each output equals that over a network which loses nothing and is in time."""
    other_lists: list[str]
    """Ports that do not run the list of the plan, NODE/PORT; nothing is judged if there is one."""
    clock_error_ns: int
    """The most that any two clocks may differ by the plan."""
    clocks: FurthestApart | None
    """In a lab with a kernel for each node; null: all nodes have one clock."""
    violations: list[str]
    """What is not as the plan promises; the exit code is 1 if there is anything."""
