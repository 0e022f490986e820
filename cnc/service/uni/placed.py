"""What a CUC is told of the place of its stream, and whether the place is in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnc.model import Forwarding, Plan
from cnc.service.uni.asked import Asked, Body, End, read
from cnc.service.uni.frames import IP_VERSIONS, MAC, TAG, Frames, frames_of
from cnc.service.uni.latency import budget_ns, frame_time_ns
from cnc.service.uni.wanted import too_late, wanted

# How many places are tried for one stream: the first, and each with the window that `narrowed`
# returns for the one before. Each is closer to the start of the interval, and the last is such that
# any place in it is in time.
TRIES_MAX = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """A stream in a plan beside what was asked for."""

    asked: Asked
    frames: Frames
    plan: Plan
    name: str

    @classmethod
    def of(cls, plan: Plan, name: str, body: Body) -> _Place:
        asked = read(body)
        return cls(asked, frames_of(asked, plan.intent), plan, name)

    @property
    def last_bit_ns(self) -> int:
        """By when the last bit of a period's frames is at the last listener, from the start of the
        interval. Of a stream with two paths both copies count from the first start."""
        its = self.plan.streams[self.name]
        return min(its.talker_offsets_ns) + its.latency_bound_ns

    def accumulated_ns(self, listener: str) -> int:
        """By when the first bit of each frame is at a listener, from the start of the interval."""
        stream = self.plan.intent.streams[self.name]
        return self.last_bit_ns - frame_time_ns(
            listener,
            stream.payload_octets,
            self.plan.intent,
            untagged=self.frames.untagged,
            shared=self.plan.streams[self.name].is_shared,
        )

    def told_offset_ns(self) -> int:
        """When the talker is told to send: in the middle of when it may (`wanted`)."""
        return min(self.plan.streams[self.name].talker_offsets_ns) + self.asked.jitter_ns

    def configuration(self, end: End, *, station: str, sends: bool) -> dict[str, Any]:
        """How the interfaces of an end have to be configured."""
        values = [*self._marks(station, sends=sends)]
        if sends and self.asked.is_scheduled:
            values.append({"time-aware-offset": self.told_offset_ns()})
        config = [{"index": number, **value} for number, value in enumerate(values)]
        return {
            "interface-list": [
                {"mac-address": each.written, "interface-name": each.name, "config-list": config}
                for each in end.interfaces
            ]
        }

    def _marks(self, station: str, *, sends: bool) -> list[dict[str, Any]]:
        """What frames have to have where they are sent, or have where they arrive."""
        intent = self.plan.intent
        if intent.network.forwarding is Forwarding.ROUTED:
            return self._ip()
        if self.frames.untagged:
            mac = intent.network.end_stations[station].mac
            return [] if sends or not mac else [{MAC: {"destination-mac-address": _written(mac)}}]
        address = self.plan.addresses[self.name]
        tag = {
            "priority-code-point": self.plan.class_of(self.name).priority,
            "vlan-id": address.vlan_id,
        }
        mac = _written(address.destination_mac)
        return [{MAC: {"destination-mac-address": mac}}, {TAG: tag}]

    def _ip(self) -> list[dict[str, Any]]:
        header = next(each for each in IP_VERSIONS if each in self.asked.fields)
        its = dict(self.asked.fields[header])
        dscps = self.plan.class_of(self.name).dscps
        if its.get("dscp") not in dscps and dscps:
            its["dscp"] = dscps[0]
        return [{header: its}]


def answer(plan: Plan, name: str, body: Body) -> dict[str, Any]:
    """The status leaves of the talker and of each listener, by RFC 7951, of a stream that has a
    place in the plan: `{"talker": {…}, "listener": [{"index", …}]}`."""
    place = _Place.of(plan, name, body)
    # As they were placed: the intent may state other addresses of its stations since.
    stream = plan.intent.streams[name]
    arrivals = [place.accumulated_ns(listener) for listener in stream.listeners]
    return {
        "talker": {
            "accumulated-latency": max(arrivals),
            "interface-configuration": place.configuration(
                place.asked.talker, station=stream.talker, sends=True
            ),
        },
        "listener": [
            {
                "index": end.index,
                "accumulated-latency": arrival,
                "interface-configuration": place.configuration(end, station=station, sends=False),
            }
            for end, station, arrival in zip(
                place.asked.listeners, stream.listeners, arrivals, strict=True
            )
        ],
    }


def narrowed(plan: Plan, name: str, body: Body, tried: int = 1) -> Mapping[str, Any] | None:
    """None where the place that a stream has in the plan is in time for every listener; else the
    keys to try next, in whose window the talker starts sooner.

    The intent bounds the latency, and the standard its sum with the offset: a place may keep to the
    one and not to the other. `tried` counts the places there were, this one included. Raises
    Refused after TRIES_MAX of them, and where none can be soon enough.
    """
    place = _Place.of(plan, name, body)
    stream, planned = plan.intent.streams[name], plan.streams[name]
    within_ns = budget_ns(
        place.asked,
        stream.listeners,
        stream.payload_octets,
        plan.intent,
        untagged=place.frames.untagged,
    )
    if within_ns is None or place.last_bit_ns <= within_ns:
        return None
    keys = wanted(body, name, plan.intent)
    latest_ns = within_ns - planned.latency_bound_ns
    if tried >= TRIES_MAX or latest_ns < stream.earliest_ns:
        raise too_late(within_ns, place.last_bit_ns)
    if tried == TRIES_MAX - 1:
        keys["max-latency"] = f"{within_ns - latest_ns}ns"
    window = {"earliest": f"{stream.earliest_ns}ns", "latest": f"{latest_ns}ns"}
    return {**keys, "window": window}


def _written(mac: str) -> str:
    """A MAC address as 802.1Q writes it."""
    return mac.replace(":", "-").upper()
