"""What keeps planned streams of a talker from streams with a shaper at the same talker."""

from __future__ import annotations

from typing import NamedTuple

from cnc.model import Intent, Stream, TalkerInterference


class Obstacle(NamedTuple):
    """What stands in the way, and what would not; both complete a sentence."""

    found: str
    expected: str


def obstacle(intent: Intent, planned: Stream) -> Obstacle | None:
    """Why frames of a planned stream, whose talker has streams with a shaper, too, may wait at it
    for more than one of these; None: they do not."""
    talker = intent.network.end_stations.get(planned.talker)
    numbers = [
        intent.classes[name].number
        for its in intent.streams.values()
        if its.talker == planned.talker
        for name in its.traffic_classes
        if name in intent.classes and intent.classes[name].shaper
    ]
    if talker is None or not numbers or not intent.has_instants(planned):
        return None
    if talker.interference is TalkerInterference.NONE:
        return Obstacle(
            f"talker {talker.name} with talker-interference: none, and with streams of a class "
            "with shaping, for a frame of which it may wait",
            "talker-interference: one-frame, or a talker of its own",
        )
    below = [
        name
        for name in planned.traffic_classes
        if name in intent.classes and intent.classes[name].number < max(numbers)
    ]
    if below:
        return Obstacle(
            f"class {below[0]}, before whose frames any number of streams with shaping go at its "
            f"talker {talker.name}",
            "a higher traffic-class, or a talker of its own",
        )
    return None
