"""What became of the frames while clocks were kept together, and after one was lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnc.model import NS_PER_S
from cnc.support.format import duration, microseconds
from cnc.testbed.lab.kernels.offsets import TrueOffsets
from cnc.testbed.traffic.measure import RESOLUTION_NS
from cnc.testbed.traffic.recording import AnyFlow, Frame

_BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """The frames of a stream in one part. `over_bound_ns` has for each that arrived when its talker
    was to send it, and how much its latency exceeded the bound, below 0 the slack; `first_late_ns`
    is when the first that was late, or never arrived, was to be sent, `last_late_ns` the last. All
    in true time. Frames that their talker sent more than RESOLUTION_NS late are `sent_late`, and
    not judged: no plan promises anything for them."""

    stream: str
    frames: int
    sent_late: int
    late: int
    lost: int
    first_late_ns: int | None
    over_bound_ns: Sequence[tuple[int, int]]
    last_late_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """All streams in one part; instants count from the start of sending. `nodes` are those whose
    clocks the plan counts on."""

    streams: Sequence[StreamOutcome]
    offsets: TrueOffsets
    nodes: Sequence[str]

    @property
    def frames(self) -> int:
        return sum(each.frames for each in self.streams)

    @property
    def sent_late(self) -> int:
        return sum(each.sent_late for each in self.streams)

    @property
    def late(self) -> int:
        return sum(each.late for each in self.streams)

    @property
    def lost(self) -> int:
        return sum(each.lost for each in self.streams)

    @property
    def clocks_differed_max_ns(self) -> int:
        """The most that any two of these clocks differed."""
        return self.offsets.furthest_apart(self.nodes).apart_ns

    def disagreements(self, name: str, allowed_ns: int) -> list[str]:
        """What a part in which clocks are kept together should not have had."""
        lines = []
        if self.late + self.lost:
            lines.append(
                f"{name}: of {self.frames} frames {self.late} were late and {self.lost} lost"
            )
        if (differed_ns := self.clocks_differed_max_ns) > allowed_ns:
            lines.append(
                f"{name}: two clocks differed by {duration(differed_ns)}; the plan allows "
                f"{duration(allowed_ns)}"
            )
        return lines

    def document(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "sent_late": self.sent_late,
            "late": self.late,
            "lost": self.lost,
            "clocks_differed_max_ns": self.clocks_differed_max_ns,
            "streams": {
                each.stream: {
                    "frames": each.frames,
                    "late": each.late,
                    "lost": each.lost,
                    "worst_over_bound_ns": max((o for _, o in each.over_bound_ns), default=None),
                    "first_late_ns": each.first_late_ns,
                }
                for each in self.streams
            },
        }


def part_of(
    sent: Sequence[AnyFlow], frames: Iterable[Frame], offsets: TrueOffsets, nodes: Sequence[str]
) -> Part:
    """The figures of a part from its frames, whose instants are those of their nodes' clocks."""
    by_flow: dict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        by_flow[frame.flow].append(frame)
    streams = [_outcome(flow, by_flow[flow.name], offsets) for flow in sent]
    return Part(streams, offsets, nodes)


def _outcome(flow: AnyFlow, frames: Sequence[Frame], offsets: TrueOffsets) -> StreamOutcome:
    over_bound_ns, bad_ns = [], []
    sent_late = late = lost = 0
    talker, listener = offsets.clock(flow.talker), offsets.clock(flow.listener)
    for frame in frames:
        if frame.sent_ns - frame.planned_ns > RESOLUTION_NS:
            sent_late += 1
            continue
        due_ns = talker.true_ns(frame.planned_ns)
        if frame.received_ns is None:
            lost += 1
            bad_ns.append(due_ns)
            continue
        over_ns = listener.true_ns(frame.received_ns) - due_ns - (flow.latency_bound_ns or 0)
        over_bound_ns.append((due_ns, over_ns))
        if over_ns > 0:
            late += 1
            bad_ns.append(due_ns)
    return StreamOutcome(
        stream=flow.name,
        frames=len(frames),
        sent_late=sent_late,
        late=late,
        lost=lost,
        first_late_ns=min(bad_ns, default=None),
        over_bound_ns=over_bound_ns,
        last_late_ns=max(bad_ns, default=None),
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """A clock that runs off at `rate_ppb`, from `fails_at_ns` on: `predicted` has by stream with
    which error its first frame is late, and lacks those that keep their bound."""

    switch: str
    follows: str
    rate_ppb: int
    fails_at_ns: int
    part: Part
    predicted: Mapping[str, int]

    @property
    def name(self) -> str:
        return f"{self.switch} {self.rate_ppb / 1000:+g} ppm"

    def error_ns(self, time_ns: int | None) -> int | None:
        """How far the clock was from that which it followed, at an instant."""
        if time_ns is None:
            return None
        at = self.part.offsets.at
        return abs(at(self.switch, time_ns) - at(self.follows, time_ns))

    def after_ns(self, time_ns: int | None) -> int | None:
        """How long after ptp4l has died."""
        return None if time_ns is None else time_ns - self.fails_at_ns

    def predicted_after_ns(self, stream: str) -> int | None:
        """When the first frame of a stream is late by the rate alone."""
        error_ns = self.predicted.get(stream)
        return None if error_ns is None else error_ns * _BILLION // abs(self.rate_ppb)

    @property
    def first_late_ns(self) -> int | None:
        return min(
            (s.first_late_ns for s in self.part.streams if s.first_late_ns is not None),
            default=None,
        )

    @property
    def verdict(self) -> str:
        """When the first frame was late, and when it should have been."""
        error_ns, predicted_ns = (
            self.error_ns(self.first_late_ns),
            min(self.predicted.values(), default=None),
        )
        if error_ns is None or predicted_ns is None:
            return "no frame was late."
        after_ns = self.after_ns(self.first_late_ns) or 0
        return (
            f"the first frame was late {after_ns / NS_PER_S:.3f} s after ptp4l had died, with the "
            f"clock {microseconds(error_ns)} µs off; predicted: {microseconds(predicted_ns)} µs, "
            f"after {predicted_ns / abs(self.rate_ppb):.3f} s."
        )

    def disagreements(self, allowed_ns: int) -> list[str]:
        """Frames that were late while the clock was as good as planned, and those late at another
        error than predicted."""
        lines = []
        for its in self.part.streams:
            error_ns, predicted_ns = (
                self.error_ns(its.first_late_ns),
                self.predicted.get(its.stream),
            )
            if error_ns is not None and error_ns <= allowed_ns:
                lines.append(
                    f"{self.name}: a frame of {its.stream} was late while the clock was "
                    f"{duration(error_ns)} off, and the plan allows {duration(allowed_ns)}"
                )
            if (error_ns is None) != (predicted_ns is None) or (
                error_ns is not None
                and predicted_ns is not None
                and abs(error_ns - predicted_ns) > RESOLUTION_NS
            ):
                lines.append(
                    f"{self.name}: the first frame of {its.stream} was late at an error of "
                    f"{_shown(error_ns)}, predicted: {_shown(predicted_ns)}"
                )
        return lines

    def document(self) -> dict[str, Any]:
        return {
            "rate_ppb": self.rate_ppb,
            "streams": {
                its.stream: {
                    "predicted_error_ns": self.predicted.get(its.stream),
                    "measured_error_ns": self.error_ns(its.first_late_ns),
                    "predicted_after_ns": self.predicted_after_ns(its.stream),
                    "measured_after_ns": self.after_ns(its.first_late_ns),
                    "frames": its.frames,
                    "late": its.late,
                }
                for its in self.part.streams
            },
        }


def _shown(error_ns: int | None) -> str:
    return "none" if error_ns is None else duration(error_ns)
