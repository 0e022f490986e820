"""The keys of how a lab is to emulate the network and its cables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import BIT_ERROR_RATIO, DURATION, FRAME_LOSS
from cnc.keys.values import choice, quantity
from cnc.model import NS_PER_S
from cnc.testbed.intent.lab_model import LabClocks, LabKernels, LabTime

_JITTER_MAX_NS = NS_PER_S
_FRAME_LOSS_MAX_PPB = 10**9
_BIT_ERRORS_MAX_PPT = 10**10  # a hundredth: of the shortest frames one of a thousand arrives


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


class Delay(Shape):
    """How much longer than after its propagation frames come over a path of many networks."""

    pareto_ns: Annotated[int, quantity(DURATION, 1_000, NS_PER_S)] = Field(
        description="on average, by a Pareto distribution of shape 3: most a little, few up to "
        "seven times this, and none before the one ahead of it; a duration such as 3ms"
    )


class Impairments(Shape):
    """What a cable does to frames in a lab, in each direction.

    Plans and switches do not depend on it. `delay` is for any lab in virtual time, all others for
    one whose nodes are kernels of their own. There what is random comes from the names of the two
    ports: a lab that is made again loses the same frames.
    """

    delay: Delay | None = Field(None, description="how much longer frames come than it is long")

    jitter_ns: Annotated[int, quantity(DURATION, 1, _JITTER_MAX_NS)] | None = Field(
        None,
        description="how much later than after its propagation a frame may come, each from 0 to "
        "this with equal probability and none before the one ahead of it; a duration such as 50ns",
    )
    frame_loss_ppb: Annotated[int, quantity(FRAME_LOSS, 1, _FRAME_LOSS_MAX_PPB)] | None = Field(
        None, description="which share of frames is lost, such as 0.1% or 1ppm"
    )
    bit_errors_ppt: Annotated[int, quantity(BIT_ERROR_RATIO, 1, _BIT_ERRORS_MAX_PPT)] | None = (
        Field(
            None,
            description="which share of bits is wrong, such as 1ppb, one bit of 10^9; a frame with "
            "a wrong bit is lost, so a long one is lost more often",
        )
    )


class NetworkKeys(Shape):
    """Of the network."""

    lab: Lab | None = Field(None, description="how `cnc lab up` emulates the network")


class LinkKeys(Shape):
    """Of a link."""

    impairments: Impairments | None = Field(
        None,
        description="what it does to frames in a lab; default: nothing",
    )
