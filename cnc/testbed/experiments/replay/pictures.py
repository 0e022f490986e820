"""Pictures of a flow beside captured traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.experiment import Picture
from cnc.testbed.experiments.replay.figures import Point
from cnc.testbed.traffic.replay.flow import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MS_PER_NS = 1e-6
STEP_NS = 20_000_000
COLOURS = (pictures.BLUE, pictures.ORANGE, pictures.GREEN, pictures.GREY, "#cc79a7")


def replay_pictures(points: Sequence[Point], captured: Timeline) -> list[Picture]:
    return [
        Picture(
            "replay",
            "Left: the captured traffic, replayed again and again, every 20 ms. Right: how "
            "many frames of the flow took at most so long.",
            _traffic_and_latencies(points, captured),
        )
    ]


def _traffic_and_latencies(points: Sequence[Point], captured: Timeline) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        steps = [0] * -(-captured.lasts_ns // STEP_NS)
        for at_ns, octets in captured.until(captured.lasts_ns):
            steps[at_ns // STEP_NS] += octets
        rates_mbps = [octets * 8_000 / STEP_NS for octets in steps]
        times_s = [number * STEP_NS / 1e9 for number in range(len(steps) + 1)]
        left.stairs(rates_mbps, times_s, color=pictures.BLUE)
        left.set_xlabel("time, s")
        left.set_ylabel("captured, Mb/s of IP")
        left.set_ylim(0)
        for colour, point in zip(COLOURS * len(points), points, strict=False):
            took_ms = sorted(ns * MS_PER_NS for ns in point.latencies_ns)
            shares = [(number + 1) / len(took_ms) for number in range(len(took_ms))]
            style = "-" if point.speed else "--"
            speed = f"{point.speed}×" if point.speed else "none"  # noqa: RUF001
            label = f"{point.rate_bps / 1e6:g} Mb/s, {speed}"
            right.step(took_ms, shares, where="post", color=colour, linestyle=style, label=label)
        right.set_xscale("log")
        right.set_xlabel("latency of the flow, ms")
        right.set_ylabel("share of its frames")
        figure.legend(
            *right.get_legend_handles_labels(),
            title="links between switches, others",
            loc="outside upper center",
            ncols=len(points),
            fontsize=8,
        )

    return draw
