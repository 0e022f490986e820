"""Gate control lists that ports of switches run, taken into a draft with classes for them. Pure.

A list is taken whoever set it: by NETCONF, or a controller whose intent is lost. One that the
intent's own checks refuse is drafted as a comment with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

from cnc import intent as intents
from cnc.data_tree.tree import CLOCK, GatesReport, PortReport
from cnc.discover.classes import classes_of
from cnc.discover.model import Draft, DraftClass, DraftList, Node
from cnc.discover.names import printable
from cnc.discover.text import as_yaml
from cnc.errors import InputError
from cnc.gate_lists.listed import Listed, listed
from cnc.mechanisms.registry import found_lists
from cnc.model import ClassRole, GateControlList, GateEntry, GateMode, Intent, PortRef
from cnc.support.format import counted

_FRAME_MIN_OCTETS = 64


def with_lists(made: Draft, reports: Sequence[Mapping[str, PortReport]]) -> Draft:
    """The draft with the lists that cabled ports run; `reports` are of its switches in order."""
    running = [_Running(node, its) for node, its in zip(made.switches, reports, strict=True)]
    gated = [each for its in running for each in its.gates.values()]
    if not gated:
        nodes = (replace(its.node, remarks=(*its.node.remarks, *its.remarks)) for its in running)
        return replace(made, switches=tuple(nodes))
    mode = Counter(each.mode or GateMode.SOFTWARE for each in gated).most_common(1)[0][0]
    classes, remarks = classes_of(gated, made.forwarding)
    known = sum(1 << each.number for each in classes)
    switches = tuple(its.drafted(mode, known) for its in running)
    made = replace(
        made, switches=switches, remarks=(*made.remarks, *remarks), classes=classes, mode=mode
    )
    without = replace(made, switches=tuple(replace(each, lists={}) for each in switches))
    made = replace(made, classes=tuple(_fitting(_read(without), made)))
    network = _read(replace(without, classes=made.classes))
    return replace(made, switches=tuple(_judged(network, each) for each in made.switches))


class _Running:
    """The gates that run at cabled ports of a switch, and what is to say of them and others."""

    def __init__(self, node: Node, reports: Mapping[str, PortReport]) -> None:
        self.node = node
        self.remarks: list[str] = []
        self.gates: dict[str, GatesReport] = {}
        self._listed: dict[str, Listed] = {}
        for port, report in sorted(reports.items()):
            its = report[GatesReport]
            if (foreign := its.foreign_qdisc) and foreign.startswith("taprio"):
                self.remarks.append(
                    f"{printable(port)}: its list is none of tsn-agent's ({printable(foreign)}) "
                    "and not read: `cnc import gates` takes the command that set it"
                )
            if its.newest is None:
                continue
            if port not in node.ports:
                self.remarks.append(f"{printable(port)}: runs a gate control list, without a cable")
                continue
            try:
                self._listed[port] = _listed(port, its)
            except InputError as error:
                self.remarks.append(f"its list is not drafted: {printable(str(error))}")
            else:
                self.gates[port] = its

    def drafted(self, mode: GateMode, known: int) -> Node:
        """The node with its lists, whose masks have the gates of classes alone, `known`."""
        modes = Counter(each.mode or GateMode.SOFTWARE for each in self.gates.values())
        own = modes.most_common(1)[0][0] if modes else mode
        remarks = [*self.remarks]
        if len(modes) > 1:
            others = [p for p, each in self.gates.items() if each.mode not in {None, own}]
            remarks.append(f"not by {own}, as a push will have them: gates of {', '.join(others)}")
        return replace(
            self.node,
            remarks=(*self.node.remarks, *remarks),
            lists={port: DraftList(_masked(its, known)) for port, its in self._listed.items()},
            mode=None if own is mode else own,
        )


def _listed(port: str, gates: GatesReport) -> Listed:
    """Raises InputError where the switch reports what no list can be."""
    newest = gates.newest
    if newest is None:
        raise TypeError(f"{port} runs no gate control list")
    remarks = [f"beside its list: {each}" for each in gates.extras]
    base_time_ns = newest.base_time_ns
    if gates.clock != CLOCK:
        base_time_ns = 0
        remarks.append(f"it runs by the clock {gates.clock or '(unknown)'}: no base-offset")
    return listed(
        port,
        port,
        newest.gates.entries,
        cycle_ns=newest.gates.cycle_ns,
        base_time_ns=base_time_ns,
        remarks=[printable(each) for each in remarks],
    )


def _masked(its: Listed, known: int) -> Listed:
    entries = tuple(GateEntry(e.gate_states & known, e.interval_ns) for e in its.entries)
    return replace(its, entries=entries)


def _read(made: Draft) -> Intent:
    return intents.from_document(yaml.safe_load(as_yaml(made)), made.name)


def _timed(its: Listed) -> tuple[GateControlList, int]:
    return GateControlList(its.cycle_ns, its.entries), its.base_offset_ns


def _fitting(network: Intent, made: Draft) -> Iterator[DraftClass]:
    """The classes; frames of scheduled ones are no longer than what fits everywhere: windows of
    planned streams are no longer than their frames."""
    longest_octets = found_lists().longest_octets
    lists = {
        PortRef(node.name, port): its.listed
        for node in made.switches
        for port, its in node.lists.items()
    }
    for each in made.classes:
        fitting = (
            longest_octets(network, port, *_timed(its), each.number) for port, its in lists.items()
        )
        longest = min((its for its in fitting if its and its >= _FRAME_MIN_OCTETS), default=None)
        default = network.classes[each.name].max_frame_octets
        if each.role is ClassRole.SCHEDULED and longest and longest < default:
            yield replace(each, max_frame_octets=longest)
        else:
            yield each


def _judged(network: Intent, node: Node) -> Node:
    """The switch, with the reason beside each list that an intent cannot have."""
    lists = {}
    for port, its in node.lists.items():
        why = found_lists().obstacle(network, PortRef(node.name, port), *_timed(its.listed))
        lists[port] = replace(its, obstacle=why)
    refused = [port for port, its in lists.items() if its.obstacle]
    remark = f"{counted(len(refused), 'gate control list')} in comments: {', '.join(refused)}"
    remarks = (*node.remarks, remark) if refused else node.remarks
    return replace(node, lists=lists, remarks=remarks)
