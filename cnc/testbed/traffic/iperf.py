"""iperf3 between two nodes of a lab: another generator, with its own protocol and figures.

Its timing does not follow the schedule: use it for throughput, `traffic.recording` for latency.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from cnc.errors import CncError, InputError
from cnc.model import NS_PER_S
from cnc.testbed.lab.addressing import addresses, next_hops
from cnc.testbed.lab.running import Lab

FINISH_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """The results of one iperf3 transfer. Jitter (RFC 1889) and packet counts are None for TCP.
    `document` is iperf3's whole output.
    """

    protocol: str
    sent_bps: float
    received_bps: float
    packets: int | None
    lost_packets: int | None
    out_of_order: int | None
    jitter_ns: int | None
    document: dict[str, Any]


_UNREACHED = (
    "`cnc lab status` shows whether all nodes run, `cnc lab exec NODE -- ping` whether they answer"
)


def measure(
    lab: Lab, talker: str, listener: str, duration_ns: int, rate_bps: int | None = None
) -> Throughput:
    """Send for a duration: UDP at a rate where one is given, else TCP as fast as it goes.

    Raises:
        InputError: no such nodes, or a duration that is not whole seconds.
        CncError: iperf3 is missing or failed.
    """
    seconds, rest = divmod(duration_ns, NS_PER_S)
    if rest or not seconds:
        raise InputError("iperf3 sends for whole seconds only", hint="such as --duration 1s")
    for node in (talker, listener):
        known = addresses(lab.intent)
        if node not in known:
            raise InputError(
                f"lab {lab.intent.name} has no node {node}", hint=f"it has {', '.join(known)}"
            )
    if talker not in next_hops(lab.intent.network, listener):
        raise InputError(f"{talker} does not reach {listener}", hint="name two nodes with a path")
    if shutil.which("iperf3") is None:
        raise CncError("iperf3 is not installed", hint="apt install iperf3")
    address = str(addresses(lab.intent)[listener].v6)
    serve = ["iperf3", "--server", "--one-off", "--forceflush", "--bind", address]
    send = ["iperf3", "--client", address, "--json", "--time", str(seconds)]
    if rate_bps is not None:
        send += ["--udp", "--bitrate", str(rate_bps)]
    with subprocess.Popen(
        lab.command(listener, serve), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            _await_listening(server)
            client = subprocess.run(
                lab.command(talker, send),
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds + FINISH_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as late:
            raise CncError(
                f"iperf3 did not end within {late.timeout:.0f} s", hint=_UNREACHED
            ) from None
        finally:
            server.kill()
    return _throughput(client.stdout, udp=rate_bps is not None)


def _await_listening(server: subprocess.Popen[str]) -> None:
    lines = []
    for line in server.stdout or ():
        lines.append(line)
        if "listening" in line:
            return
    raise CncError(f"iperf3's server did not start: {''.join(lines).strip()}", hint=_UNREACHED)


def _throughput(text: str, *, udp: bool) -> Throughput:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        raise CncError(
            f"iperf3 returned no result: {text.strip() or 'no output'}", hint=_UNREACHED
        ) from None
    if error := document.get("error"):
        raise CncError(f"iperf3: {error}", hint=_UNREACHED)
    end = document["end"]
    if not udp:
        return Throughput(
            protocol="TCP",
            sent_bps=end["sum_sent"]["bits_per_second"],
            received_bps=end["sum_received"]["bits_per_second"],
            packets=None,
            lost_packets=None,
            out_of_order=None,
            jitter_ns=None,
            document=document,
        )
    total = end["sum"]
    return Throughput(
        protocol="UDP",
        sent_bps=total["bits_per_second"],
        received_bps=total["bits_per_second"] * (100 - total["lost_percent"]) / 100,
        packets=total["packets"],
        lost_packets=total["lost_packets"],
        out_of_order=sum(stream["udp"].get("out_of_order", 0) for stream in end["streams"]),
        jitter_ns=round(total["jitter_ms"] * 1_000_000),
        document=document,
    )
