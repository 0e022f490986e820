"""Launch times, as the controller registers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.finding import Check
from cnc.mechanism import Admission, Figure, Measured, Registered
from cnc.mechanisms.launch_time.model import LaunchTimes
from cnc.model import Plan
from cnc.support.format import counted, duration
from cnc.support.lazy import lazy_import

_ENTRIES = lazy_import("cnc.mechanisms.launch_time.entries")
_PLACE = lazy_import("cnc.mechanisms.launch_time.place")
_SEMANTICS = lazy_import("cnc.mechanisms.launch_time.semantics")


def _figures(plan: Plan) -> Iterator[Figure]:
    """How late frames of a launch time leave, and what that is worth."""
    network = plan.intent.network
    for name, its in sorted(plan.intent[LaunchTimes].stations.items()):
        station, late_ns = network.end_stations[name], network.lateness_ns(name)
        alone = [
            stream
            for stream, planned in plan.streams.items()
            if plan.intent.streams[stream].talker == name and not planned.is_shared
        ]
        source = str(its.mode)
        if station.lateness_ns is None:
            source += ", as the gate margin"
        if alone and (of_program_ns := station.program_lateness_ns) is not None:
            by_ns = of_program_ns - late_ns
            source += (
                f"; {duration(abs(by_ns))} {'less' if by_ns >= 0 else 'more'} in the latency "
                f"bound of each of {counted(len(alone), 'stream')} in windows of their own than "
                f"with talker-lateness {duration(of_program_ns)}"
            )
        yield Figure(f"launch error of {name}", late_ns, source)


def _refused(plan: Plan) -> Mapping[str, str]:
    found: Mapping[str, str] = _ENTRIES.refused(plan)
    return found


MECHANISM = Registered(
    name="launch_time",
    measured=Measured(
        check=Check.LATENESS,
        taken=lambda intent, _stated, _running: intent,
        kept=lambda intent, _then: intent,
        figures=_figures,
    ),
    admission=Admission(refused=_refused),
    at_place=lambda: _PLACE.AT_PLACE,
    keys=lambda: _SEMANTICS.KEYS,
)
