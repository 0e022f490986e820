"""Replication and elimination of the ports in the tree of ieee802-dot1cb-frer. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.mechanism import FRER, Node, ReportContext
from agent.mechanisms.frer.model import Counts, FrerState, Generated, LatentErrors, Recovery
from agent.mechanisms.frer.tree import GENERATION, RECOVERY, SEQUENCE_IDENTIFICATION
from agent.model import PortState

_IEEE_802_1 = "00-80-C2"
_SEQUENCE_NUMBERS = 1 << 16  # IEEE Std 802.1CB-2017, 10.4.1.8: the least that no R-TAG can carry
_Handle = tuple[bool, int]


def tables(states: Iterable[PortState]) -> Node:
    """The entries that are in force, with the ports where they are; nothing without any."""
    generation: dict[int, Node] = {}
    recovery: dict[int, Node] = {}
    identification: list[Node] = []
    for state in sorted(states, key=lambda each: each.name):
        part = state[FrerState]
        for generated in sorted(part.generated, key=lambda each: each.handle):
            entry = generation.setdefault(generated.entry, _generation(generated))
            _add(entry["stream"], generated.handle)
        for recovered in sorted(part.recovered, key=lambda each: each.handle):
            for function in recovered.functions:
                is_individual = function is recovered.individual
                found = part.latent_errors.get(function.entry, LatentErrors())
                entry = recovery.setdefault(
                    function.entry, _recovery(function, is_individual, found)
                )
                _add(entry["stream"], recovered.handle)
                _add(entry["port"], state.name)
        identification += _identification(state.name, part)
    named = {
        GENERATION: [generation[index] for index in sorted(generation)],
        RECOVERY: [recovery[index] for index in sorted(recovery)],
        SEQUENCE_IDENTIFICATION: identification,
    }
    node = {name: entries for name, entries in named.items() if entries}
    return {FRER: node} if node else {}


def counters(state: PortState, _context: ReportContext) -> Node:
    """What the port has done with frames (IEEE Std 802.1CB-2017, 10.8 and 10.9)."""
    part = state[FrerState]
    rows = {
        **{
            (False, each.handle): _generation_counters(part.counts.get(each.address, Counts()))
            for each in part.generated
        },
        **{
            (True, each.handle): _recovery_counters(part.counts.get(each.address, Counts()))
            | _latent_error_resets(each.combined, part)
            for each in part.recovered
        },
    }
    if not rows:
        return {}
    totals = {
        "rx-passed-pkts": _total(rows, "rx-passed-pkts"),
        "rx-discarded-pkts": _total(rows, "rx-discarded-pkts", "rx-rogue-pkts"),
        "encode-errored-pkts": _total(rows, "encode-errored-pkts"),
    }
    node = {
        "per-port-counters": totals,
        "per-port-per-stream-counters": [
            {
                "direction-out-facing": is_out_facing,
                "handle": handle,
                **{name: str(count) for name, count in counts.items()},
            }
            for (is_out_facing, handle), counts in sorted(rows.items())
        ],
    }
    return {"statistics": {FRER: node}}


def _generation(stream: Generated) -> Node:
    return {
        "index": stream.entry,
        "stream": [],
        "direction-out-facing": False,
        "reset": False,  # the standard: it is never read as true
    }


def _recovery(function: Recovery, is_individual: bool, found: LatentErrors) -> Node:
    entry: Node = {
        "index": function.entry,
        "stream": [],
        "port": [],
        "direction-out-facing": True,
        "reset": False,
        "algorithm": _kind(function.algorithm),
        "reset-timeout": function.reset_timeout_ms,
        "invalid-sequence-value": _SEQUENCE_NUMBERS,
        "take-no-sequence": function.take_no_sequence,
        "individual-recovery": is_individual,
    }
    if function.history_length:
        entry["history-length"] = function.history_length
    if watched := function.latent_errors:
        entry["latent-error-detection"] = True
        entry["latent-error-detection-parameters"] = {
            "difference": watched.difference,
            "period": watched.period_ms,
            "paths": watched.paths,
            "reset-period": watched.reset_period_ms,
        }
        entry["tsn-linux:latent-errors"] = {
            "detected": found.detected,
            "difference": str(found.difference),
            "errors": str(found.errors),
        }
    return entry


def _identification(port: str, part: FrerState) -> list[Node]:
    sides = ((False, part.generated), (True, part.recovered))
    return [
        {
            "port": port,
            "direction-out-facing": is_out_facing,
            "stream": sorted(each.handle for each in streams),
            "active": True,
            "encapsulation": _kind("r-tag"),
        }
        for is_out_facing, streams in sides
        if streams
    ]


def _kind(name: str) -> Node:
    return {name: {"type-number": name, "oui-cid": _IEEE_802_1}}


def _generation_counters(counts: Counts) -> dict[str, int]:
    return {"generation-reset": counts.resets}


def _recovery_counters(counts: Counts) -> dict[str, int]:
    return {
        "rx-out-of-order-pkts": counts.out_of_order,
        "rx-rogue-pkts": counts.rogue,
        "rx-passed-pkts": counts.passed,
        "rx-discarded-pkts": counts.discarded,
        "rx-lost-pkts": counts.lost,
        "rx-tagless-pkts": counts.tagless,
        "rx-resets": counts.resets,
        "encode-errored-pkts": counts.errored,
    }


def _latent_error_resets(function: Recovery | None, part: FrerState) -> dict[str, int]:
    """Of the function for all ports: each of these shows how often the same counting began."""
    if function is None or function.latent_errors is None:
        return {}
    return {"rx-latent-error-resets": part.latent_errors.get(function.entry, LatentErrors()).resets}


def _total(rows: dict[_Handle, dict[str, int]], *names: str) -> str:
    return str(sum(counts.get(name, 0) for counts in rows.values() for name in names))


def _add(listed: list[object], value: object) -> None:
    if value not in listed:
        listed.append(value)
