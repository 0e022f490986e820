"""The clocks of the nodes of a document, as a lab is to emulate them."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.intent import shape
from cnc.intent.problems import Problems
from cnc.model import Clock


def clocks(document: shape.Document, problems: Problems) -> dict[str, Clock]:
    """The clock of each node that states one; what is wrong with it is added to `problems`."""
    kinds: dict[str, Mapping[str, shape.Switch | shape.EndStation]] = {
        "switches": document.switches,
        "end-stations": document.end_stations,
    }
    result = {}
    for kind, nodes in kinds.items():
        for name, its in nodes.items():
            if its.clock is None:
                continue
            if not its.clock.model_fields_set:
                problems.add(
                    (kind, name, "clock"), "no key", "offset, frequency-offset or both of them"
                )
            result[name] = Clock(its.clock.offset_ns, its.clock.frequency_offset_ppb)
    return result
