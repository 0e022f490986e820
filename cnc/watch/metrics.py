"""The state of the network as Prometheus metrics; docs/operate/watching.md lists them.

Names and units follow https://prometheus.io/docs/practices/naming/. A switch that does not answer
has only the metric `tsn_switch_up`: unknown values are omitted, not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cnc.data_tree.tree import GatesReport
from cnc.errors import InputError
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import NS_PER_S
from cnc.watch.observation import Poll
from cnc.watch.observer import Snapshot

# How long a scrape may be silent; Prometheus sends its request at once.
SCRAPE_TIMEOUT_S = 10.0


def serve(address: str, port: int, snapshot: Callable[[], Snapshot]) -> Callable[[], None]:
    """Answer scrapes at http://ADDRESS:PORT/metrics until the returned function is called.

    Raises InputError if the address cannot be listened on.
    """
    registry = CollectorRegistry()
    registry.register(Network(snapshot))
    try:
        server, _ = start_http_server(port, address, registry)
    except OSError as error:
        raise InputError(
            f"cannot serve metrics at {address}:{port}: {error.strerror}",
            hint="check that the address belongs to this machine and that the port is free",
        ) from error

    # A connection that sends no request, or does not read, occupies a thread.
    handler: Any = server.RequestHandlerClass
    server.RequestHandlerClass = type("Impatient", (handler,), {"timeout": SCRAPE_TIMEOUT_S})

    def close() -> None:
        server.shutdown()
        server.server_close()

    return close


class Network(Collector):
    """The metrics of a network, as they are when they are scraped."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        answers = {name: poll for name, poll in now.polls.items() if poll}
        yield from _switches(now, answers)
        yield from _ports(now, answers)
        yield from _counters(answers)
        yield from _of_mechanisms(answers)
        unfinished = GaugeMetricFamily(
            "tsn_rollout_unfinished", "Unfinished rollouts that wait for an operator."
        )
        unfinished.add_metric([], now.unresolved)
        yield unfinished
        conditions = GaugeMetricFamily(
            "tsn_condition",
            "1 for each current condition.",
            labels=["kind", "switch", "port"],
        )
        for each in now.conditions:
            conditions.add_metric([each.kind, each.switch, each.port], 1)
        yield conditions


def _switches(now: Snapshot, answers: Mapping[str, Poll]) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "tsn_switch_up", "Whether the switch answers over NETCONF.", labels=["switch"]
    )
    agent = GaugeMetricFamily(
        "tsn_agent_up", "Whether the agent of the switch runs.", labels=["switch"]
    )
    tai = GaugeMetricFamily(
        "tsn_switch_tai_offset_seconds", "TAI minus UTC in the kernel.", labels=["switch"]
    )
    ptp = GaugeMetricFamily(
        "tsn_switch_ptp_locked",
        "Whether the switch's clock follows a PTP grandmaster, or is it; only where ptp4l runs.",
        labels=["switch"],
    )
    clock = GaugeMetricFamily(
        "tsn_switch_clock_offset_seconds",
        "Offset of the TAI clock from the median of all switches, measured over NETCONF.",
        labels=["switch"],
    )
    for name in now.polls:
        up.add_metric([name], name in answers)
    for name, poll in answers.items():
        report = poll.state.agent
        agent.add_metric([name], report is not None)
        if report and report.tai_offset_s is not None:
            tai.add_metric([name], report.tai_offset_s)
        if report and report.ptp:
            ptp.add_metric([name], report.ptp.is_locked)
        if offset := now.clocks.get(name):
            clock.add_metric([name], offset.estimate_ns / NS_PER_S)
    yield from (up, agent, tai, clock, ptp)


def _ports(now: Snapshot, answers: Mapping[str, Poll]) -> Iterator[Metric]:
    agrees = GaugeMetricFamily(
        "tsn_port_agrees",
        "Whether the planned list runs or is pending in the kernel.",
        labels=["switch", "port"],
    )
    link = GaugeMetricFamily(
        "tsn_port_link_up", "Whether the link is up.", labels=["switch", "port"]
    )
    for name, poll in answers.items():
        for port, report in poll.state.ports.items():
            agrees.add_metric([name, port], (name, port) not in now.drifted)
            if report.oper_status is not None:
                link.add_metric([name, port], report.oper_status == "up")
    yield from (agrees, link)


def _counters(answers: Mapping[str, Poll]) -> Iterator[Metric]:
    errors = CounterMetricFamily(
        "tsn_port_config_change_errors",
        "Schedules that arrived after their base time.",
        labels=["switch", "port"],
    )
    by_class = ["switch", "port", "traffic_class"]
    drops = CounterMetricFamily(
        "tsn_port_drops", "Frames dropped before they were sent.", labels=by_class
    )
    window_drops = CounterMetricFamily(
        "tsn_port_window_drops", "Frames dropped for which the list has no window.", labels=by_class
    )
    overruns = CounterMetricFamily(
        "tsn_port_overruns", "Frames still being sent when their gate closed.", labels=by_class
    )
    sent = CounterMetricFamily("tsn_port_transmitted_frames", "Frames sent.", labels=by_class)
    backlog = GaugeMetricFamily(
        "tsn_port_backlog_frames", "Frames that wait to be sent.", labels=by_class
    )
    for name, poll in answers.items():
        for port, counted in poll.counters.items():
            if counted.config_change_errors is not None:
                errors.add_metric([name, port], counted.config_change_errors)
            for family, counts in (
                (drops, counted.drops),
                (window_drops, counted.window_drops),
                (overruns, counted.overruns),
            ):
                for number, count in counts.items():
                    family.add_metric([name, port, str(number)], count)
        for port, report in poll.state.ports.items():
            for number, traffic in report[GatesReport].traffic.items():
                sent.add_metric([name, port, str(number)], traffic.sent_frames)
                backlog.add_metric([name, port, str(number)], traffic.backlog_frames)
    yield from (errors, drops, window_drops, overruns, sent, backlog)


def _of_mechanisms(answers: Mapping[str, Poll]) -> Iterator[Metric]:
    watched = (each.watched for each in MECHANISMS if each.watched)
    for its in (metric for each in watched for metric in each.metrics(answers)):
        family = (CounterMetricFamily if its.is_counter else GaugeMetricFamily)(
            its.name, its.text, labels=its.labels
        )
        for labels, value in its.samples:
            family.add_metric(labels, value)
        yield family
