"""The conditions of streams at one switch, by what its filters and recovery functions count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from cnc.mechanisms.frer.counts import (
    Error,
    SilentPaths,
    errors_in_words,
    latent_errors,
    recovery_errors,
)
from cnc.mechanisms.stream_filters.compare import (
    Refused,
    as_planned_before,
    ports_between_plans,
    refused_counts,
    refused_frames,
)
from cnc.model import BridgeForwarding, PortSettings
from cnc.support.wording import named
from cnc.watch.condition import Kind
from cnc.watch.counter_delta import CounterDelta
from cnc.watch.observation import Poll


class StreamConditions:
    """Compares the polls of one switch."""

    def __init__(self) -> None:
        self._refused: defaultdict[str, CounterDelta[Refused]] = defaultdict(CounterDelta)
        self._between: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        self._errors: defaultdict[str, CounterDelta[Error]] = defaultdict(CounterDelta)
        self._paths: defaultdict[str, SilentPaths] = defaultdict(SilentPaths)

    def update(
        self, poll: Poll, desired: Mapping[str, PortSettings | None]
    ) -> dict[Kind, dict[str, str]]:
        """The conditions as of this poll: of bridges to which frames come otherwise than planned,
        or that miss frames, and of ports by which no copies come."""
        found: dict[Kind, dict[str, str]] = {
            Kind.POLICED: {},
            Kind.RECOVERY_ERRORS: {},
            Kind.LATENT_ERROR: {},
            Kind.SILENT_PATH: {},
        }
        for bridge, its in desired.items():
            if not isinstance(its, BridgeForwarding):
                continue
            now_ns, port = poll.state.answered_ns, poll.state.ports.get(bridge)
            report = port.forwarding if port else None
            counts = refused_counts(its, report)
            between = ports_between_plans(report)
            # What has come since the last look may have come before the list began that was pending
            # then.
            ignored = as_planned_before(its, between | self._between[bridge])
            self._between[bridge] = between
            refused = self._refused[bridge].update(counts, now_ns, ignored)
            errors = self._errors[bridge].update(recovery_errors(its, poll.counters), now_ns)
            if refused:
                found[Kind.POLICED][bridge] = named(refused_frames(its, refused))
            if errors:
                found[Kind.RECOVERY_ERRORS][bridge] = named(errors_in_words(its, errors))
            if latent := latent_errors(its, report):
                found[Kind.LATENT_ERROR][bridge] = named(latent)
            found[Kind.SILENT_PATH] |= self._silent(bridge, its, poll)
        return found

    def _silent(self, bridge: str, desired: BridgeForwarding, poll: Poll) -> dict[str, str]:
        """By port which copies do not come."""
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for path, its in self._paths[bridge].update(desired, poll.counters).items():
            stream = str(desired.names.get(path.address, path.address))
            texts[path.port].append(its.in_words(stream, path.port))
        return {port: named(its) for port, its in texts.items()}
