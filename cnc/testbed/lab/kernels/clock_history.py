"""The clocks of a lab of kernels since it began: how far they were off, and what they followed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc import intent as intents
from cnc.errors import CncError
from cnc.model import NS_PER_S, Intent
from cnc.testbed.lab import lifecycle
from cnc.testbed.lab.addressing import port_addresses
from cnc.testbed.lab.kernels import gptp, offsets, ptp_log
from cnc.testbed.lab.kernels.layout import INTENT_FILE
from cnc.testbed.lab.kernels.offsets import TrueOffsets
from cnc.testbed.lab.kernels.ptp_log import Role
from cnc.testbed.lab.running import Lab, substrate_of
from cnc.testbed.lab.switch import CLOCK_SERVICE

RECENT_NS = 10 * NS_PER_S
# A node without ptp4l has no log of one.
_SHOW = '[ ! -e "$0" ] || cat "$0"'


@dataclass(frozen=True, slots=True)
class RoleSpan:
    """What a clock is to others from an instant on, and the node that it follows; None: none."""

    time_ns: int
    role: Role
    grandmaster: str | None


@dataclass(frozen=True, slots=True)
class NodeClock:
    """One node's clock now, and how far it was ahead of the reference's in the last ten seconds.

    `role` and `since_ns` are None where no ptp4l runs.
    """

    node: str
    role: Role | None
    grandmaster: str | None
    since_ns: int | None
    ahead_ns: int
    least_ns: int
    greatest_ns: int
    roles: Sequence[RoleSpan]


@dataclass(frozen=True, slots=True)
class ClockHistory:
    """Instants count from the start of the lab.

    `record` is the file with the true offsets. `roles` are those of each node's ptp4l, one after
    the other; none: no ptp4l runs on it.
    """

    intent: Intent
    record: Path
    offsets: TrueOffsets
    roles: Mapping[str, Sequence[RoleSpan]]

    @property
    def reference(self) -> str:
        """The node whose clock the others should follow."""
        return gptp.grandmaster(self.intent)

    def nodes(self) -> Iterator[NodeClock]:
        """Each as it is at the end of the record."""
        for node, spans in self.roles.items():
            distances = self.offsets.distances(node, self.reference)
            end_ns, ahead_ns = distances[-1]
            recent = [each for at_ns, each in distances if at_ns >= end_ns - RECENT_NS]
            last = spans[-1] if spans else None
            yield NodeClock(
                node,
                last.role if last else None,
                last.grandmaster if last else None,
                last.time_ns if last else None,
                ahead_ns,
                min(recent),
                max(recent),
                spans,
            )


def read(name: str) -> ClockHistory:
    """What there is of the lab `name`.

    Raises:
        CncError: its nodes have one clock, or it has ended.
        InputError: no such lab is up.
    """
    directory = lifecycle.STATE_ROOT / name
    nodes = substrate_of(name, directory)
    record = nodes.clock_offsets()
    if record is None:
        raise CncError(
            f"the nodes of lab {name} have one clock, that of this kernel",
            hint="`cnc lab up FILE --kernels own` gives each node its own",
        )
    lifecycle.check_alive(name, nodes)
    document = json.loads(record.with_name(INTENT_FILE).read_text())
    intent = intents.from_document(document, "the lab's intent")
    lab = Lab(intent, directory)
    network = intent.network
    names = {_identity(at.mac): port.node for port, at in port_addresses(network).items()}
    roles = {
        node: [
            RoleSpan(each.time_ns, each.role, names.get(each.followed or "", each.followed))
            for each in ptp_log.changes(_log(lab, node).splitlines())
        ]
        for node in (*network.bridges, *network.end_stations)
    }
    return ClockHistory(intent, record, TrueOffsets(offsets.read(record)), roles)


def _log(lab: Lab, node: str) -> str:
    """What the ptp4l of a node has printed, among other lines."""
    is_managed = node in lab.intent.network.managed
    file = lab.switch(node).log(CLOCK_SERVICE) if is_managed else gptp.station_log(lab.directory)
    command = lab.command(node, ["sh", "-c", _SHOW, str(file)])
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise CncError(
            f"node {node} of the lab does not show {file}: "
            f"{done.stderr.decode(errors='replace').strip()}",
            hint="`cnc lab status` shows whether the lab is up",
        )
    return done.stdout.decode(errors="replace")


def _identity(mac: str) -> str:
    """The clock identity that a port's address gives its node, as linuxptp writes it (IEEE Std
    1588-2019, 7.5.2.2)."""
    octets = mac.replace(":", "")
    return f"{octets[:6]}.fffe.{octets[6:]}"
