"""How numbers and copies of frames are told: in documents, on the path of a stream, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnc.mechanism import AtHop, Names, Shown, StreamTable
from cnc.mechanisms.frer.compare import done
from cnc.mechanisms.frer.derive import sequence_functions
from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunctions, ports_of
from cnc.model import Elimination, Plan, PortRef, StreamAddress


# The attributes' docstrings are in the JSON schemas.
@dataclass(frozen=True, slots=True)
class Sequencing:
    """What a switch does with the copies of the frames of a stream."""

    stream: str | None
    """null: not known, as of one that is in no plan."""
    destination_mac: str
    vlan_id: int
    generation: Generation | None
    """At the first switch: the port where it numbers them."""
    recovery: Recovery | None
    """At a last switch: the ports from which it passes the first copy of each; how many numbers it
    remembers, and the pause in ms after which it takes any number. `latent_errors` is how it
    watches that copies come by all ways (IEEE 802.1CB 7.4.4); null: it does not."""


def _rows(its: SequenceFunctions, names: Names) -> Iterator[Sequencing]:
    for address, function in sorted(its.by_stream.items(), key=str):
        yield Sequencing(
            names.get(address),
            address.destination_mac,
            address.vlan_id,
            function if isinstance(function, Generation) else None,
            function if isinstance(function, Recovery) else None,
        )


def _at_hop(
    does: SequenceFunctions, planned: SequenceFunctions, address: StreamAddress, port: str
) -> AtHop:
    running, wanted = (its.by_stream.get(address) for its in (does, planned))
    at_port = [its for its in (running, wanted) if its and port in ports_of(its)]
    words = done(running) if running and running in at_port else None
    if running == wanted or not at_port:
        return AtHop(words)
    does_so = (
        f"frames are {done(running)}" if running else "frames are neither numbered nor recovered"
    )
    meant = f"; planned: {done(wanted)}" if wanted else ", not as planned"
    return AtHop(words, f"{does_so}{meant}")


def _guards(its: SequenceFunctions, switch: str) -> Iterator[tuple[StreamAddress, str, object]]:
    """{"numbered": [port, ...],
    "recovered": [{"switch", "ports", "history", "reset_ms"}, ...]}
    """
    for address, function in its.by_stream.items():
        if isinstance(function, Generation):
            yield address, "numbered", str(PortRef(switch, function.port))
        else:
            what = {
                "switch": switch,
                "ports": list(function.ports),
                "history": function.history_length,
                "reset_ms": function.reset_timeout_ms,
            }
            yield address, "recovered", what


def _table(plan: Plan) -> StreamTable | None:
    """Where switches number frames and take out second copies."""
    eliminated = [
        name for name in plan.streams if plan.intent.streams[name].elimination is Elimination.SWITCH
    ]

    def row(name: str) -> tuple[str, ...]:
        functions = sequence_functions(plan, name)
        first = [f"{s}/{its.port}" for s, its in functions.items() if isinstance(its, Generation)]
        last = {s: its for s, its in sorted(functions.items()) if isinstance(its, Recovery)}
        return (
            name,
            ", ".join(first),
            ", ".join(last),
            ", ".join(str(its.history_length) for its in last.values()),
            ", ".join(f"{its.reset_timeout_ms} ms" for its in last.values()),
        )

    if not eliminated:
        return None
    columns = ("stream", "numbered at", "passed once by", ">history", ">reset after")
    title = "streams with duplicates eliminated by switches"
    return StreamTable(title, columns, len(eliminated), map(row, eliminated))


SHOWN = Shown(
    key="sequencing",
    row=Sequencing,
    rows=_rows,
    key_text="Left out where no frames are numbered or recovered.",
    hop_key="sequencing",
    hop_text="What is done with their numbers and copies, in words; left out where nothing is.",
    hop_column="copies",
    at_hop=_at_hop,
    guards=_guards,
    table=_table,
)
