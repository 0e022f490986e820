"""The launch time of a port in the YANG tree (`tsn-end-station`).

A value that a node cannot have raises ValueError with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import END_STATION, INTERFACES, NETCONF
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.launch_time.model import (
    KernelLaunch,
    Launch,
    LaunchMode,
    LaunchReport,
    PortLaunch,
)

_ES = ElementMaker(namespace=END_STATION, nsmap={None: END_STATION})
_NAMESPACES = {"e": END_STATION, "if": INTERFACES}
_LEAVES = reply.Leaves(END_STATION)
_INTERFACES = reply.Leaves(INTERFACES)
_OPERATION = f"{{{NETCONF}}}operation"


def edit(parts: Mapping[str, PortLaunch], its: PlaceEdit) -> list[Element]:
    """Sets or removes the launch time of ports, in their interfaces; there is nothing beside."""
    for name, desired in parts.items():
        its.interfaces.of(name).append(_element(desired.configuration))
    return []


def _element(launch: Launch | None) -> Element:
    if launch is None:
        return _ES("launch-time", {_OPERATION: "remove"})
    return _ES(
        "launch-time",
        {_OPERATION: "replace"},
        _ES("mode", launch.mode),
        _ES("delta-ns", str(launch.delta_ns)),
        *(_ES("priority", str(priority)) for priority in launch.priorities),
    )


def told() -> list[Element]:
    """A filter of what the kernel has at a port."""
    return [_ES("launch-time", _ES("kernel"))]


def stored(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PortLaunch]:
    """What ports have configured, by name."""
    return {
        name: PortLaunch(
            Launch(
                LaunchMode(_LEAVES.required(its, "mode")),
                _LEAVES.number(its, "delta-ns"),
                tuple(
                    sorted(
                        reply.number(each.text or "", "priority")
                        for each in reply.entries(its, "e:priority", _NAMESPACES)
                    )
                ),
            )
        )
        for name, its in _launch_times(whole)
        if its.find("e:mode", _NAMESPACES) is not None
    }


def reported(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, LaunchReport]:
    """What the kernel has at ports, by name."""
    return {
        name: LaunchReport(
            {
                _LEAVES.number(row, "priority"): KernelLaunch(
                    LaunchMode(_LEAVES.required(row, "mode")),
                    _LEAVES.number(row, "delta-ns"),
                    _LEAVES.number(row, "discarded-frames"),
                )
                for row in reply.entries(its, "e:kernel", _NAMESPACES)
            }
        )
        for name, its in _launch_times(whole)
    }


def _launch_times(whole: Reply) -> Iterator[tuple[str, Element]]:
    for interface in reply.entries(whole.data, "if:interfaces/if:interface", _NAMESPACES):
        its = interface.find("e:launch-time", _NAMESPACES)
        if its is not None:
            yield _INTERFACES.required(interface, "name"), its
