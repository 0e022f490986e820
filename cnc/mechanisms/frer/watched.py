"""What `cnc status` and `cnc watch` tell of the copies of streams, and their metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from cnc.data_tree.tree import BridgeReport
from cnc.mechanism import CountedTable, Counts, Metric, Observed, Trouble, Watched
from cnc.mechanisms.frer.counts import (
    Error,
    Path,
    SilentPaths,
    errors_in_words,
    latent_errors,
    recoveries,
    recovery_errors,
)
from cnc.mechanisms.frer.model import FoundErrors
from cnc.model import BridgeForwarding, Intent
from cnc.support.counter_delta import CounterDelta, grown
from cnc.support.wording import named

HINT_PATHS = "`cnc path STREAM PLAN` follows the copies through what the switches have"


class Kind(StrEnum):
    """The kinds of conditions."""

    SILENT_PATH = "silent-path"  # copies of a stream come no longer by one of its ways
    LATENT_ERROR = "latent-error"  # a switch finds that copies do not arrive by all paths
    RECOVERY_ERRORS = "recovery-errors"  # frames lost on all paths of a stream, or rogue copies


# The attributes' docstrings are in the JSON schema of `cnc status`.
@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of a stream at an ingress port of its last switch, by outcome."""

    stream: str
    port: str
    passed: int
    """The first ones."""
    discarded: int
    """The second ones."""
    lost: int
    """Frames that have come by no port."""
    rogue: int
    """Copies with a number out of their turn, which are discarded, too."""
    is_silent: bool
    """None arrives at this port, while others arrive at another."""
    has_latent_error: bool | None
    """The switch itself has found that copies do not come by all ports (IEEE 802.1CB 7.4.4); null:
    it does not look for that."""


def counted(bridge: str, desired: BridgeForwarding, first: Observed, second: Observed) -> Counts:
    """What a last switch has counted by the second of two looks."""
    paths = SilentPaths()
    paths.update(desired, first.counters)
    silent = paths.update(desired, second.counters)
    errors = grown(*(recovery_errors(desired, look.counters) for look in (first, second)))
    problems = (
        *(
            its.in_words(str(desired.names.get(path.address, path.address)), path.port)
            for path, its in silent.items()
        ),
        *latent_errors(desired, second.state.bridge(bridge)),
        *errors_in_words(desired, errors),
    )
    return Counts(
        tuple(_copies(bridge, desired, second, silent)),
        problems=problems,
        hints=(HINT_PATHS,) if problems else (),
    )


def again_ns(
    _bridge: str, desired: BridgeForwarding, look: Observed, intent: Intent
) -> Iterator[int]:
    """When so many copies of a stream have come that those of a slower path are missed."""
    for address, function in recoveries(desired).items():
        if any(address in its.recovery for its in look.counters.values()):
            its = intent.streams.get(desired.names.get(address, ""))
            # Of a former plan there is no stream.
            yield (function.history_length // its.frames + 2) * its.period_ns if its else 0


def needs_counters(desired: BridgeForwarding) -> bool:
    """Whether copies are counted."""
    return bool(recoveries(desired))


class Conditions:
    """Compares the looks at the copies that come to one bridge."""

    def __init__(self) -> None:
        self._errors = CounterDelta[Error]()
        self._paths = SilentPaths()

    def update(self, bridge: str, desired: BridgeForwarding, look: Observed) -> Iterator[Trouble]:
        """Whether the bridge misses frames, and by which ports no copies come."""
        counts = recovery_errors(desired, look.counters)
        if errors := self._errors.update(counts, look.state.answered_ns):
            yield Trouble(Kind.RECOVERY_ERRORS, bridge, named(errors_in_words(desired, errors)))
        if latent := latent_errors(desired, look.state.bridge(bridge)):
            yield Trouble(Kind.LATENT_ERROR, bridge, named(latent))
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for path, its in self._paths.update(desired, look.counters).items():
            stream = str(desired.names.get(path.address, path.address))
            texts[path.port].append(its.in_words(stream, path.port))
        for port, silences in texts.items():
            yield Trouble(Kind.SILENT_PATH, port, named(silences))


def metrics(answers: Mapping[str, Observed]) -> Iterator[Metric]:
    """What switches have done with copies, and found that watch them; nothing where none does."""
    address_labels = ("destination_mac", "vlan_id")
    recovered = Metric(
        "tsn_stream_recovery",
        "Frames of a stream at the ingress port of its sequence recovery, by outcome; and resets "
        "of the sequence.",
        ("switch", "port", *address_labels, "counter"),
        is_counter=True,
        samples=[],
    )
    detected = Metric(
        "tsn_stream_latent_error",
        "Whether copies of a stream do not arrive by all its paths (IEEE 802.1CB 7.4.4).",
        ("switch", "bridge", *address_labels),
        is_counter=False,
        samples=[],
    )
    tests = Metric(
        "tsn_stream_latent_error_tests",
        "Tests of a switch that found that.",
        ("switch", "bridge", *address_labels),
        is_counter=True,
        samples=[],
    )
    for name, its in answers.items():
        for port, counters in its.counters.items():
            for address, counts in counters.recovery.items():
                of = (name, port, address.destination_mac, str(address.vlan_id))
                recovered.samples.extend(((*of, what), n) for what, n in counts.items())
        for bridge, report in its.state.ports.items():
            its_bridge = report.get(BridgeReport)
            found = its_bridge.counts[FoundErrors].by_stream if its_bridge else {}
            for address, error in found.items():
                of = (name, bridge, address.destination_mac, str(address.vlan_id))
                detected.samples.append((of, error.is_detected))
                tests.samples.append((of, error.tests))
    yield from (each for each in (recovered, detected, tests) if each.samples)


def _copies(
    bridge: str, desired: BridgeForwarding, look: Observed, silent: Mapping[Path, object]
) -> Iterator[Copies]:
    report = look.state.bridge(bridge)
    for address, function in recoveries(desired).items():
        found = report.counts[FoundErrors].by_stream.get(address) if report else None
        for port in function.ports:
            counters = look.counters.get(port)
            counts = counters.recovery.get(address) if counters else None
            if counts is None:
                continue
            yield Copies(
                desired.names.get(address, str(address)),
                port,
                **{name: counts.get(name, 0) for name in ("passed", "discarded", "lost", "rogue")},
                is_silent=Path(address, port) in silent,
                has_latent_error=found.is_detected if found else None,
            )


def _cells(switch: str, its: Copies) -> tuple[tuple[str, ...], bool]:
    counts = (f"{count:,}" for count in (its.passed, its.discarded, its.lost, its.rogue))
    verdict = "silent" if its.is_silent else "latent error" if its.has_latent_error else "comes"
    return (its.stream, switch, its.port, *counts, verdict), verdict == "comes"


WATCHED = Watched(
    key="copies",
    row=Copies,
    counted=counted,
    again_ns=again_ns,
    kinds=Kind,
    conditions=Conditions,
    metrics=metrics,
    needs_counters=needs_counters,
    table=CountedTable(
        "copies of streams",
        ("stream", "switch", "by", ">passed", ">discarded", ">lost", ">rogue", "verdict"),
        _cells,
    ),
)
