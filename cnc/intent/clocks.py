"""The clocks of the nodes of a document, as a lab is to emulate them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from cnc import model
from cnc.intent import shape
from cnc.intent.clock_shape import FREQUENCY_OFFSET_MAX_PPB, Clock
from cnc.intent.problems import KeyPath, Problems
from cnc.intent.units import DURATION, FREQUENCY_OFFSET


def clocks(document: shape.Document, problems: Problems) -> dict[str, model.Clock]:
    """The clock of each node that states one; what is wrong with it is added to `problems`."""
    kinds: dict[str, Mapping[str, shape.Switch | shape.EndStation]] = {
        "switches": document.switches,
        "end-stations": document.end_stations,
    }
    result = {}
    for kind, nodes in kinds.items():
        for name, its in nodes.items():
            if its.clock is not None:
                result[name] = _clock(its.clock, (kind, name, "clock"), problems)
    return result


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
