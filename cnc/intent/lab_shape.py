"""How a lab is to emulate the network, and what is wrong with that."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.intent.mapping import Shape
from cnc.intent.problems import Problems
from cnc.intent.values import choice
from cnc.model import Emulation, LabClocks, LabKernels, LabTime


class Lab(Shape):
    """How `cnc lab up` emulates the network, where its options do not say otherwise.

    Plans and switches do not depend on it.
    """

    kernels: Annotated[LabKernels, choice(LabKernels)] = Field(
        "shared",
        validate_default=True,
        description="shared: each node is a namespace of one kernel; own: each is a user-mode "
        "kernel with a clock of its own, all in one virtual time",
    )
    clocks: Annotated[LabClocks, choice(LabClocks)] = Field(
        "gptp",
        validate_default=True,
        description="what keeps the clocks of kernels of their own together; gptp: a ptp4l at each "
        "node, which follows that of the first switch; free: nothing",
    )
    time: Annotated[LabTime, choice(LabTime)] = Field(
        "virtual",
        validate_default=True,
        description="when the time of kernels of their own passes; virtual: while a command runs, "
        "as fast as the machine can; real: always, as the clock of the machine does",
    )


def emulation(its: Lab | None, problems: Problems) -> Emulation:
    """What a document states; what is wrong with it is added to `problems`."""
    if its is None:
        return Emulation()
    if its.kernels is not LabKernels.OWN:
        for key in sorted({"clocks", "time"} & its.model_fields_set):
            problems.add(
                ("lab", key), "nodes that share a kernel, and its clock", "`kernels: own` beside it"
            )
    return Emulation(its.kernels, its.clocks, its.time)
