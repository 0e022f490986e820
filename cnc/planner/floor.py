"""What a stream needs even on an empty network, in parts, and what those that need too much have in
common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cnc.mechanisms.terms import control_share, interference_ns
from cnc.model import NS_PER_S, Intent, Link
from cnc.planner.capacity import wire_ns
from cnc.planner.problem import Problem
from cnc.planner.route import Route
from cnc.support.format import counted, duration, microseconds, rate

CLOCK_ERROR = "clock error"  # a part of a latency
_STEPS = (5, 2, 1)  # of what is proposed: 1, 2, 5, 10, 20, 50 … ns


def us(time_ns: int) -> str:
    """A time for people, exact to the nanosecond."""
    return f"{microseconds(time_ns)} µs"


def gate_margin(intent: Intent) -> str:
    """The gate margin of the intent, and whether it was stated, measured or assumed."""
    value = f"gate-margin {duration(intent.network.gate_margin_ns)}"
    if intent.measured_margin is not None:
        return f"{value}, measured on {intent.measured_margin.port}"
    return f"{value}, {'stated' if intent.states_gate_margin else 'assumed: none is stated'}"


def clock_error(intent: Intent) -> str:
    """The clock error of the intent, and whether it was stated or measured."""
    source = "stated" if intent.measured_clock_error is None else "measured"
    each = intent.network.clock_error_neighbours_ns
    by_hops = "" if each is None else f", {duration(each)} between neighbours"
    return f"clock-error {duration(intent.network.clock_error_ns)}{by_hops}, {source}"


class Part(NamedTuple):
    """What a figure of the intent adds to a latency: `times` its value of `each_ns`."""

    each_ns: int
    times: int

    @property
    def ns(self) -> int:
        return self.each_ns * self.times


class Named(NamedTuple):
    """A part of a latency, in words; `by` is the key that states it, where there is one."""

    what: str
    takes_ns: int
    by: str = ""


class Floor(NamedTuple):
    """The least latency that this planner gives a stream on its way, and its parts.

    `way` are the nodes. The parts that the intent states: the gate margin of each sender, the
    talker's own lateness, a best-effort frame of the talker, control frames, the processing of
    switches, the clock error. The rest are frames and cables, of which `sent_ns` is what no other
    planner could undercut either: no gate, clock or other frame is in it. `flooded` is a link of
    the way that control may fill.
    """

    way: tuple[str, ...]
    least_ns: int
    allowed_ns: int
    frames: int
    sent_ns: int
    gate_margin: Part
    lateness_ns: int
    lateness_key: str
    interference_ns: int
    control_ns: int
    processing_ns: int
    clock_error: Part
    flooded: Link | None

    def reason(self, intent: Intent) -> str:
        """Why the stream has no place, if it needs more than it is allowed."""
        if self.flooded is not None:
            return (
                f"control may take all of {self.flooded.source}: its classes send up to "
                f"{rate(intent.control_rate_bps(self.flooded))} on average, the link has "
                f"{rate(self.flooded.rate_bps)}. State a smaller `rate` of these classes"
            )
        named = self.parts(intent)
        what = "frame and cable take" if self.frames == 1 else "frames and cables take"
        sure_ns = self.sent_ns + self.processing_ns
        proved = (
            ""
            if sure_ns <= self.allowed_ns
            else (
                ". It is proved that no plan is in time on this path: frames and cables alone take "
                f"{us(self.sent_ns)}, with switch processing of {us(self.processing_ns)} that is "
                f"{us(sure_ns)}"
            )
        )
        others = [
            f"{its.what} {us(its.takes_ns)}{f' ({its.by})' if its.by else ''}" for its in named
        ]
        return (
            f"needs at least {us(self.least_ns)} over {' → '.join(self.way)}, max-latency is "
            f"{us(self.allowed_ns)}. Of this, {what} {us(self.wire_ns)}, "
            f"{', '.join(others)}. Raise max-latency to "
            f"{us(self.least_ns)} or lower one of these{proved}"
        )

    @property
    def wire_ns(self) -> int:
        """What frames and cables take of it."""
        stated_ns = self.gate_margin.ns + self.clock_error.ns + self.lateness_ns
        return (
            self.least_ns - stated_ns - self.processing_ns - self.interference_ns - self.control_ns
        )

    def parts(self, intent: Intent) -> list[Named]:
        """What the figures of the intent take of it, but those that take nothing."""
        margin, error = self.gate_margin, self.clock_error
        found = [
            Named("best effort of the talker itself", self.interference_ns),
            Named("control frames in the way", self.control_ns),
            Named("late gates", margin.ns, gate_margin(intent)),
            Named("the talker's own lateness", self.lateness_ns, self.lateness_key),
            Named("switch processing", self.processing_ns),
            Named(CLOCK_ERROR, error.ns, clock_error(intent)),
        ]
        optional = {"best effort of the talker itself", "late gates", "the talker's own lateness"}
        return [its for its in found if its.takes_ns or its.what not in optional]


def floor(problem: Problem, route: Route) -> Floor:
    """The floor of a route, by the listener that is reached last."""
    intent = problem.intent
    legs = _slowest_path(route)
    links = [problem.links[route.legs[index].link] for index in legs]
    stream = problem.stream(route.member)
    talker = intent.network.end_stations[links[0].source.node]
    lateness = talker.lateness_ns
    own = interference_ns(intent, links[0])
    waited_out = sum(not route.legs[index].late_ns for index in legs[1:])
    network = intent.network
    frames = [wire_ns(problem, stream, route.legs[index].link) for index in legs]
    gaps = sum(Fraction(network.overhead.gap_octets * 8 * NS_PER_S, its.rate_bps) for its in links)
    sent = int(sum(frames) - gaps + (stream.frames - 1) * max(frames))
    return Floor(
        way=(*(link.source.node for link in links), links[-1].target.node),
        least_ns=route.least_latency_ns,
        allowed_ns=stream.max_latency_ns,
        frames=stream.frames,
        sent_ns=sent + sum(link.propagation_ns for link in links),
        gate_margin=Part(intent.network.gate_margin_ns, len(links) - (lateness is not None)),
        lateness_ns=lateness or 0,
        lateness_key=talker.lateness_key,
        interference_ns=own,
        control_ns=sum(problem.control_ns(link, stream) for link in links),
        processing_ns=sum(
            intent.network.bridges[link.source.node].processing_max_ns for link in links[1:]
        ),
        clock_error=_clock_error(problem, route, 1 + waited_out),
        flooded=next((link for link in links if _is_flooded(intent, link)), None),
    )


def _clock_error(problem: Problem, route: Route, times: int) -> Part:
    """What clock errors add to a route that waits one out so many times; in one sum where they
    depend on who differs from whom."""
    network = problem.intent.network
    if network.clock_error_neighbours_ns is None:
        return Part(network.clock_error_ns, times)
    exact = replace(network, clock_error_ns=0, clock_error_neighbours_ns=None)
    by_one_clock = Problem(replace(problem.intent, network=exact), {}, loose=problem.loose)
    least_ns = by_one_clock.quickest(route.member, route.tree).least_latency_ns
    return Part(route.least_latency_ns - least_ns, 1)


def _is_flooded(intent: Intent, link: Link) -> bool:
    share, whole = control_share(intent, link)
    return share >= whole


def common_cause(intent: Intent, floors: Sequence[Floor]) -> str:
    """What takes most of what streams need that need too much, where that comes from, and with how
    much less of it each of them would have the time; nothing for a single stream, which has its
    reason."""
    if len(floors) < 2:  # noqa: PLR2004
        return ""
    least_ns = sum(its.least_ns for its in floors)
    own = Part(1, 1)
    causes = [
        ("the gate margin", gate_margin(intent), [its.gate_margin for its in floors]),
        ("the clock error", clock_error(intent), [its.clock_error for its in floors]),
        (
            "best effort of the talker itself",
            "talker-interference: one-frame",
            [own._replace(times=its.interference_ns) for its in floors],
        ),
    ]
    if intent.network.clock_error_neighbours_ns is not None:
        causes = [cause for cause in causes if cause[0] != "the clock error"]  # of no one value
    what, source, parts = max(causes, key=lambda cause: sum(part.ns for part in cause[2]))
    share = sum(part.ns for part in parts) / least_ns
    text = (
        f"{counted(len(floors), 'stream')} need more than their max-latency even alone; {what} is "
        f"{share:.0%} of what they need ({source}). {_with_less(floors, parts)}"
    )
    if parts[0] == floors[0].gate_margin and not intent.states_gate_margin:
        text += ". State what your switches hold as `gate-margin`, or plan with `--ask-switches`"
    return text


def _with_less(floors: Sequence[Floor], parts: Sequence[Part]) -> str:
    """With how much of the value of `parts` each of the floors would be low enough."""
    fitting = sorted(
        (
            (its.allowed_ns - its.least_ns + part.ns) // part.times if part.times else -1
            for its, part in zip(floors, parts, strict=True)
        ),
        reverse=True,
    )
    served = [value_ns for value_ns in fitting if value_ns >= 0]
    if not served:
        return "Even without it none of them would have the time"
    most_ns = _rounded_down(served[-1])
    many = "each of them" if len(served) == len(floors) else f"{len(served)} of them"
    value = "Without it" if parts[0].each_ns == 1 else f"With {duration(most_ns)} of it"
    return f"{value} {many} would have the time, taken by itself"


def _slowest_path(route: Route) -> list[int]:
    last = max(
        (index for index, leg in enumerate(route.legs) if leg.delivery_ns is not None),
        key=lambda index: route.offsets_ns[index] + (route.legs[index].delivery_ns or 0),
    )
    path = [last]
    while (parent := route.legs[path[0]].parent) is not None:
        path.insert(0, parent)
    return path


def _rounded_down(time_ns: int) -> int:
    """The greatest of 0, 1, 2, 5, 10, 20, 50 … nanoseconds that is no more."""
    if time_ns < 1:
        return 0
    power = int("1" + "0" * (len(str(time_ns)) - 1))
    return next(step * power for step in _STEPS if step * power <= time_ns)
