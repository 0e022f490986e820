"""From a plan to the configuration of each node: values first, then the NETCONF `<config>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.tree import IF_TYPE, INTERFACES, NETCONF
from cnc.mechanism import Interfaces, PlaceEdit
from cnc.mechanisms.composition import at_places
from cnc.model import Plan, PortSettings, StoredPort
from cnc.switch.rollout_id import RolloutId, rollout_id_element

Element = etree._Element  # noqa: SLF001  lxml has no public name for it

_NC = ElementMaker(namespace=NETCONF, nsmap={"nc": NETCONF})
_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES, "ianaift": IF_TYPE})

Settings = dict[str, PortSettings]


def desired_nodes(plan: Plan, nodes: Collection[str] | None = None) -> dict[str, Settings]:
    """What a plan asks of each of `nodes`, of all that a rollout configures where it is None: of
    the cabled ports of switches and end stations, and of the bridges of a bridged network."""
    names = plan.intent.network.managed if nodes is None else nodes
    found: dict[str, defaultdict[str, list[object]]] = {name: defaultdict(list) for name in names}
    for at_place in at_places():
        for place, part in at_place.derive(plan, names).items():
            found[place.node][place.port].append(part)
    return {
        name: {port: PortSettings.of(*parts) for port, parts in its.items()}
        for name, its in found.items()
    }


def with_former(desired: Mapping[str, Settings], former: Plan | None) -> dict[str, Settings]:
    """`desired` by node, with what only `former`, the plan before, had, and has to go."""
    if former is not None:
        for at_place in at_places():
            desired = at_place.leaving(desired, former)
    return {**desired}


def edit_config(
    changes: Mapping[str, PortSettings],
    base_time_ns: int,
    stored: Mapping[str, StoredPort | None],
    rollout_id: RolloutId | None = None,
) -> Element:
    """The `<config>` that sets the ports and bridges in `changes`, and the id of the rollout where
    the switch keeps one.

    Nothing else changes: a port's other bridge settings, and other ports, keep their values.
    """
    edit = PlaceEdit(base_time_ns, stored, Interfaces({}, named_interface))
    beside = []
    for at_place in at_places():
        asked = {name: settings.get(at_place.part) for name, settings in changes.items()}
        parts = {name: part for name, part in asked.items() if part is not None}
        beside += at_place.edit(parts, edit)
    return _NC(
        "config",
        _IF("interfaces", *(each for _, each in sorted(edit.interfaces.elements.items()))),
        *beside,
        *([rollout_id_element(rollout_id)] if rollout_id else []),
    )


def named_interface(name: str) -> Element:
    """A port, for what augments interfaces, or refers to one."""
    return _IF("interface", _IF("name", name), _IF("type", "ianaift:ethernetCsmacd"))
