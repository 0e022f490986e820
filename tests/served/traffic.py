"""Frames of streams that come and go in a lab, and what became of each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from cnc.model import Bridge
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import BACKGROUND_OCTETS, UNKNOWN_MAC
from cnc.testbed.traffic.station import Station
from tests.served import talker
from tests.served.judging import INTERFACE, Judge, Judged, Sent

_BACKGROUND = 60_000  # the numbers of such frames
_BACKGROUND_NS = 16_550_000
_ON_THE_WAY_S = 1.0  # longer than any frame
_AHEAD_NS = 5_000_000  # for a program to hear of a stream before its first frame


class Traffic:
    """The programs of all stations, from before the first stream to after the last one. Streams
    begin and end from any thread."""

    def __init__(self, lab: Lab, directory: Path, flooding: Collection[str]) -> None:
        """Switches that are `flooding` send best effort to all ports of the ordinary VLAN."""
        network = lab.intent.network
        heard = {"addresses": [], "interfaces": [INTERFACE], "udp_ports": [], "ethertypes": []}
        ends = sorted(network.end_stations)
        self._network = network
        self._listeners = [Station(lab, "listen", node, 0, heard) for node in ends]
        self._talkers = {
            node: Station(lab, "send", node, 0, {}, file=talker.__file__)
            for node in (*ends, *flooding)
        }
        self._directory, self._flooding = directory, flooding
        self._streams: dict[int, Sent] = {}
        self._telling = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listeners and talkers, which write down what they saw when the block ends."""
        stations = [*self._listeners, *self._talkers.values()]
        try:
            for station in stations:
                station.start(self._directory, {"deliveries": False})
            for station in stations:
                station.await_ready()
            for turn, switch in enumerate(self._flooding):
                self.begin(_background(turn, self._network.bridges[switch]))
            yield
            for station in self._talkers.values():
                station.finish()
            time.sleep(_ON_THE_WAY_S)
            for station in self._listeners:
                station.finish()
        finally:
            for station in stations:
                station.end()

    def begin(self, its: Sent) -> None:
        """Send its frames, from the next period on of which its talker has heard in time."""
        self._streams[its.number] = its
        from_ns = tai_ns() + _AHEAD_NS
        self._order(its.talker, {"begin": {**asdict(its), "from_ns": from_ns}})

    def end(self, number: int) -> None:
        """Send none of them any more, but for one that is due."""
        self._order(self._streams[number].talker, {"end": number})

    def _order(self, node: str, order: object) -> None:
        with self._telling:
            self._talkers[node].tell(json.dumps(order))

    def judged(self) -> Judged:
        """What became of the frames, once the programs have ended."""
        judge = Judge(self._network, self._streams)
        for listener in self._listeners:
            judge.take_arrivals(listener.node, listener.arrivals())
        for station in self._talkers.values():
            judge.take_sent(map(int, row) for row in station.rows())
        return judge.judged()


def _background(turn: int, switch: Bridge) -> Sent:
    """Best effort that drifts through all phases of a cycle."""
    return Sent(
        number=_BACKGROUND + turn,
        name=f"best effort of {switch.name}",
        talker=switch.name,
        latencies_ns={},
        destination_mac=UNKNOWN_MAC,
        vlan_id=None,
        pcp=None,
        payload_octets=BACKGROUND_OCTETS,
        period_ns=_BACKGROUND_NS,
        offset_ns=0,
        interface=switch.bridge_device,
    )
