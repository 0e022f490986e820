"""`cnc serve` in the lab: CUCs ask for streams and give them back while frames of others are sent.

All that is real: TLS, the UNI, the store, rollouts over NETCONF, switches' agents and kernels. What
a talker does is what the answer told its CUC.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S
from cnc.testbed.lab import lab
from tests.served import cell
from tests.served.cell import Asked, Told
from tests.served.cuc import Cuc
from tests.served.judging import Sent
from tests.served.process import Served, served
from tests.served.traffic import Traffic

MS = 1_000_000
SWITCHES = int(os.environ.get("TSN_SERVED_SWITCHES", "6"))
REQUESTS = int(os.environ.get("TSN_SERVED_REQUESTS", "60"))
PERIOD_NS = int(os.environ.get("TSN_SERVED_PERIOD_MS", "10")) * MS
CUCS = ("plc-1", "plc-2", "plc-3")
FIXED = 0  # the number of the intent file's stream
PAUSE_S = float(os.environ.get("TSN_SERVED_PAUSE_S", "0.8"))
FEW = 20  # lines worth reading
_PROMISED = "after a disturbance frames of"  # could be late for longer than was promised
AFTERWARDS_S = 1.0  # frames of all streams together

pytestmark = pytest.mark.virtual_time


class Stations:
    """The talkers of the cell, as CUCs tell them what to send."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def begin(self, asked: Asked, told: Told) -> None:
        self._traffic.begin(
            Sent(
                number=asked.number,
                name=asked.stream_id,
                talker=f"e{asked.talker}",
                latencies_ns={
                    f"e{listener}": latency_ns
                    for listener, latency_ns in zip(asked.listeners, told.latencies_ns, strict=True)
                },
                destination_mac=told.destination_mac,
                vlan_id=told.vlan_id,
                pcp=told.pcp,
                payload_octets=asked.octets,
                period_ns=asked.period_ns,
                offset_ns=told.offset_ns,
            )
        )

    def end(self, asked: Asked) -> None:
        self._traffic.end(asked.number)


def begin_fixed(service: Served, traffic: Traffic) -> None:
    """The stream of the intent file is sent from when switches run the first plan on."""
    with service.admin() as admin:
        next(each for each in admin.events(after=0) if each["kind"] == "rollout-done")
        document = admin.document("streams")
    (its,) = document["transmissions"]
    (planned,) = document["streams"]
    last_bit_ns = its["offset_ns"] + planned["latency_bound_ns"]
    traffic.begin(
        Sent(
            number=FIXED,
            name=its["stream"],
            talker=its["talker"],
            latencies_ns=dict.fromkeys(its["listeners"], last_bit_ns),
            destination_mac=its["destination_mac"],
            vlan_id=its["vlan_id"],
            pcp=its["pcp"],
            payload_octets=its["payload_octets"],
            period_ns=its["period_ns"],
            offset_ns=its["offset_ns"],
        )
    )


def drawn() -> Iterator[Asked]:
    chance = Random("streams")  # noqa: S311  not for secrets
    for number in range(FIXED + 1, REQUESTS + 1):
        yield Asked.drawn(number, chance, switches=SWITCHES, period_ns=PERIOD_NS)


def cuc(name: str, service: Served, stations: Stations, draw: Callable[[], Asked]) -> Cuc:
    token = service.token(name)
    client, events = service.client(token), service.client(token)
    chance = Random(name)  # noqa: S311  not for secrets
    return Cuc(name, client, events, stations, draw, chance, PAUSE_S)


def test_no_frame_is_late_or_lost_while_streams_come_and_go(tmp_path: Path) -> None:
    file = cell.written(SWITCHES, tmp_path)
    with lab(intents.load(file), timed_wires=True) as running:
        traffic = Traffic(running, tmp_path, flooding=("s1", f"s{SWITCHES}"))
        with (
            ThreadPoolExecutor(2 * len(CUCS)) as threads,  # they follow the service to its end
            served(file, tmp_path / "cnc", running.connect) as service,
            traffic.running(),
        ):
            begin_fixed(service, traffic)
            draw = partial(next, iter([*drawn()]))  # by several threads
            cucs = [cuc(name, service, Stations(traffic), draw) for name in CUCS]
            for each in cucs:
                threads.submit(each.follow)
            shares = (REQUESTS // len(CUCS) + (turn < REQUESTS % len(CUCS)) for turn in range(3))
            for asking in [*map(threads.submit, (each.ask for each in cucs), shares)]:
                asking.result()
            time.sleep(AFTERWARDS_S)
        found = traffic.judged()
    accepted = sum(each.accepted for each in cucs)
    refused = [why for each in cucs for why in each.refused]
    print(*refused[:FEW], sep="\n")
    print(
        f"{REQUESTS} requests on {SWITCHES} switches: {accepted} streams accepted, "
        f"{len(refused)} refused, {sum(each.removed for each in cucs)} removed; {found.frames} "
        f"frames at listeners, the longest latency {found.worst:.1%} of the one that was stated"
    )
    assert [*found.faults[:FEW]] == []
    # Nothing but a promise to another stream stands in the way of one, and in six switches no such.
    assert [why for why in refused if _PROMISED not in why] == []
    assert SWITCHES > cell.SWITCHES or not refused
    assert found.frames > NS_PER_S // PERIOD_NS * accepted
