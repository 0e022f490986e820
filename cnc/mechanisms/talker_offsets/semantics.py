"""What a document says of gates of end stations, and of the best effort that they send."""

from __future__ import annotations

from cnc.intent import shape
from cnc.intent.problems import Problems
from cnc.model import ClassRole, TalkerInterference


def talker_interference(document: shape.Document, station: str) -> TalkerInterference:
    """What is stated of a station, or of all; none where its gates keep its best effort back."""
    its = document.end_stations[station]
    if its.gates:
        return TalkerInterference.NONE
    return its.talker_interference or document.defaults.talker_interference


def refuse_talker_gates(document: shape.Document, problems: Problems) -> None:
    """Add to `problems` gates of end stations that nothing would configure, or that would not do
    what is planned with them.

    Between windows a frame that its talker sends too late has only its priority over best effort.
    """
    scheduled = {
        name: its.traffic_class
        for name, its in document.classes.items()
        if its.role is ClassRole.SCHEDULED
    }
    lowest = min(scheduled, key=lambda name: scheduled[name], default=None)
    for name, its in document.end_stations.items():
        if its.gates is None:
            continue
        path = "end-stations", name, "gates"
        if its.management is None:
            problems.add(
                path,
                f"{its.gates} without management",
                "management as well, the address at which a push brings the list, or no gates",
            )
        if its.talker_interference is TalkerInterference.ONE_FRAME:
            problems.add(
                ("end-stations", name, "talker-interference"),
                f"{its.talker_interference} beside gates",
                "no such key: gates keep the station's best effort back",
            )
        for other, its_class in document.classes.items():
            is_best_effort = its_class.role is ClassRole.BEST_EFFORT
            if lowest and is_best_effort and its_class.traffic_class > scheduled[lowest]:
                problems.add(
                    path,
                    f"{its.gates} and best effort of a higher class, {other} "
                    f"({its_class.traffic_class}), than scheduled class {lowest} "
                    f"({scheduled[lowest]})",
                    "scheduled classes above best effort, so that a late frame goes first",
                )
