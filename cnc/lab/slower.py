"""The same network, many times slower: for clocks that cannot tell its microseconds apart."""

from __future__ import annotations

from dataclasses import replace

from cnc.model import Intent


def slower(intent: Intent, factor: int) -> Intent:
    """Every rate divided and every time multiplied by `factor`; names and addresses stay.

    The plan keeps its shape, and every window becomes `factor` times as long.
    """
    network = intent.network
    return replace(
        intent,
        network=replace(
            network,
            bridges={
                name: replace(
                    bridge,
                    processing_min_ns=bridge.processing_min_ns * factor,
                    processing_max_ns=bridge.processing_max_ns * factor,
                )
                for name, bridge in network.bridges.items()
            },
            links={
                source: replace(
                    link,
                    rate_bps=link.rate_bps // factor,
                    propagation_ns=link.propagation_ns * factor,
                    gate_interval_min_ns=link.gate_interval_min_ns * factor,
                )
                for source, link in network.links.items()
            },
            clock_error_ns=network.clock_error_ns * factor,
            gate_margin_ns=network.gate_margin_ns * factor,
        ),
        streams={
            name: replace(
                stream,
                period_ns=stream.period_ns * factor,
                max_latency_ns=stream.max_latency_ns * factor,
                earliest_ns=stream.earliest_ns * factor,
                latest_ns=None if stream.latest_ns is None else stream.latest_ns * factor,
            )
            for name, stream in intent.streams.items()
        },
    )
