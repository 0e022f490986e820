"""What a document says of how a lab is to emulate the network."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems
from cnc.keys.units import DURATION, FREQUENCY_OFFSET
from cnc.testbed.intent import lab_model as model
from cnc.testbed.intent.clock_shape import FREQUENCY_OFFSET_MAX_PPB, Clock, NodeKeys
from cnc.testbed.intent.lab_shape import Lab, LinkKeys, NetworkKeys

if TYPE_CHECKING:
    from cnc.keys import shape


def _read(document: shape.Document, problems: Problems) -> Iterator[object]:
    yield _clocks(document, problems)
    yield _emulation(document[NetworkKeys].lab, problems)
    yield _impairments(document, problems)


def _clocks(document: shape.Document, problems: Problems) -> model.Clocks:
    kinds: dict[str, Mapping[str, shape.Switch | shape.EndStation]] = {
        "switches": document.switches,
        "end-stations": document.end_stations,
    }
    result = {}
    for kind, nodes in kinds.items():
        for name, its in nodes.items():
            if clock := its[NodeKeys].clock:
                result[name] = _clock(clock, (kind, name, "clock"), problems)
    return model.Clocks(result)


def _clock(its: Clock, path: KeyPath, problems: Problems) -> model.Clock:
    if not its.model_fields_set:
        problems.add(
            path,
            "no key",
            "one or more of offset, frequency-offset, random-walk, sinusoid and steps",
        )
    if its.seed is not None and not its.random_walk_ppt:
        problems.add((*path, "seed"), "a seed of no random-walk", "a random-walk beside it")
    swing = its.sinusoid
    most_ppb = abs(its.frequency_offset_ppb) + (swing.amplitude_ppb if swing else 0)
    if swing and most_ppb > FREQUENCY_OFFSET_MAX_PPB:
        problems.add(
            (*path, "sinusoid", "amplitude"),
            f"a frequency that is off by {FREQUENCY_OFFSET.format(most_ppb)} with frequency-offset",
            f"{FREQUENCY_OFFSET.format(FREQUENCY_OFFSET_MAX_PPB)} at most",
        )
    for number, step in enumerate(its.steps):
        if not step.by_ns:
            problems.add((*path, "steps", number, "by"), "a step of 0ns", "one ahead or back")
        if step.at_ns in {earlier.at_ns for earlier in its.steps[:number]}:
            at = DURATION.format(step.at_ns)
            problems.add(
                (*path, "steps", number, "at"), f"a second step at {at}", "one instant each"
            )
    # Of different names, so that two nodes of a network do not walk side by side.
    seed = zlib.crc32(str(path[1]).encode()) if its.seed is None else its.seed
    return model.Clock(
        offset_ns=its.offset_ns,
        frequency_offset_ppb=its.frequency_offset_ppb,
        random_walk_ppt=its.random_walk_ppt or 0,
        sinusoid_amplitude_ppb=swing.amplitude_ppb if swing else 0,
        sinusoid_period_ns=swing.period_ns if swing else 0,
        seed=seed if its.random_walk_ppt else 0,
        steps=tuple(
            model.ClockStep(step.at_ns, step.by_ns)
            for step in sorted(its.steps, key=lambda each: each.at_ns)
        ),
    )


def _emulation(its: Lab | None, problems: Problems) -> model.Emulation:
    if its is None:
        return model.Emulation()
    if its.kernels is not model.LabKernels.OWN:
        for key in sorted({"clocks", "time"} & its.model_fields_set):
            problems.add(
                ("lab", key), "nodes that share a kernel, and its clock", "`kernels: own` beside it"
            )
    return model.Emulation(its.kernels, its.clocks, its.time)


def _impairments(document: shape.Document, problems: Problems) -> model.ImpairedLinks:
    result = {}
    for index, link in enumerate(document.links):
        its = link[LinkKeys].impairments
        if its is None:
            continue
        if not its.model_fields_set:
            expected = "one or more of delay, jitter, frame-loss and bit-errors"
            problems.add(("links", index, "impairments"), "no key", expected)
        of_both = model.Impairments(
            its.jitter_ns or 0,
            its.frame_loss_ppb or 0,
            its.bit_errors_ppt or 0,
            its.delay.pareto_ns if its.delay else 0,
        )
        result.update(dict.fromkeys(link.ends, of_both))
    return model.ImpairedLinks(result)


KEYS = Keys(
    {
        Level.NETWORK: NetworkKeys,
        Level.SWITCH: NodeKeys,
        Level.END_STATION: NodeKeys,
        Level.LINK: LinkKeys,
    },
    read=_read,
)
