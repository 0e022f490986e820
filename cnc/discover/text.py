"""A draft as commented YAML for an operator to go on with, and as data for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from cnc.discover.model import Draft, DraftClass, DraftLink, DraftList, Node
from cnc.discover.names import PORT
from cnc.discover.targets import NETCONF_PORT
from cnc.gate_lists.fragment import list_lines
from cnc.keys.units import RATE, SIZE
from cnc.model import DEFAULT_BRIDGE_DEVICE, Forwarding

_ASSUMED_RATE_BPS = 1_000_000_000

_HEAD = """\
# Drafted by `cnc discover` from LLDP and from the interfaces of the switches. LLDP is what
# neighbours say of themselves: compare this with the cables before you plan on it.
"""
_FORWARDING = {
    Forwarding.BRIDGED: """\
# Ports with cables are ports of bridges. A push writes static filtering entries and VLAN members
# for the streams; the plan assigns each an address, a VLAN and a priority code point (PCP).
forwarding: bridged
""",
    Forwarding.ROUTED: """\
# No port with a cable is a port of a bridge. For `bridged`, make a bridge with VLAN filtering on
# each switch, and discover again.
forwarding: routed
""",
}
_DEFAULTS = """\
# Every promise a plan makes rests on these figures. They are assumptions: measure them.
defaults:
  rate: {rate}
  propagation: 100ns                  # 20 m of copper
  processing: {{min: 1us, max: 5us}}    # last bit in → frame lies in its queue
  clock-error: 1us                    # most that any two clocks differ (ptp4l, phc2sys)
{gates}
"""
_GATES = "  gates: {:<28} # {}"
_ASSUMED_GATES = "taprio in the kernel; also: txtime-assist, full-offload"
_RUNNING_GATES = "as most ports with a gate control list run it"
_RUNNING_CLASSES = """\
# As most ports with a gate control list have them; names, roles and max-frame are assumptions.
classes:
"""
_CLASSES = {
    Forwarding.BRIDGED: """\
# As in the examples. A class is a queue; switches know its frames by PCP, which is `priority`.
classes:
  control:     {traffic-class: 7, priority: 7, role: control, max-frame: 128B}
  cyclic:      {traffic-class: 6, priority: 6, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, role: best-effort, max-frame: 1522B}
""",
    Forwarding.ROUTED: """\
# As in the examples. A class is a queue; switches know its frames by DSCP.
classes:
  control:     {traffic-class: 7, priority: 7, dscp: [48, 56], role: control, max-frame: 128B}
  cyclic:      {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 1522B}
""",
}
_PAYLOAD = {
    Forwarding.BRIDGED: "what follows the VLAN tag: for IP, the packet with its headers",
    Forwarding.ROUTED: "the IP packet with its headers",
}
_STREAMS = """\
# Describe the streams of the network here. For example:
#
# streams:
#   motion:
#     talker: {talker}
#     listeners: [{listener}]
#     class: cyclic
#     period: 20ms
#     payload: 200B                   # {payload}
#     max-latency: 10ms               # planned start of sending → last bit received
streams: {{}}
"""


def as_yaml(draft: Draft) -> str:
    """An intent without streams, which `cnc check` accepts; what is uncertain is a comment."""
    rate_bps = draft.default_rate_bps
    rate = RATE.format(rate_bps or _ASSUMED_RATE_BPS)
    if rate_bps is None:
        rate += "                         # no switch reports the speed of a link: an assumption"
    gates = _GATES.format(draft.mode, _RUNNING_GATES if draft.classes else _ASSUMED_GATES)

    def opens(states: int) -> str:
        return _flow([its.name for its in draft.classes if states >> its.number & 1])

    talker, listener, *_ = [*(s.name for s in draft.end_stations), "TALKER", "LISTENER"]
    parts = [
        _HEAD + "".join(_missing(draft)),
        f"name: {_flow(draft.name)}\n",
        _FORWARDING[draft.forwarding],
        _DEFAULTS.format(rate=rate, gates=gates)
        + (f"  user: {_flow(draft.user)}\n" if draft.user else ""),
        "".join(_classes(draft.classes)) or _CLASSES[draft.forwarding],
        "".join(_block("switches", [_switch(each, opens) for each in draft.switches], "{}")),
        "".join(_block("end-stations", [_station(node) for node in draft.end_stations], "[]")),
        "".join(_block("links", [_link(link, rate_bps) for link in draft.links], "[]")),
        _STREAMS.format(talker=talker, listener=listener, payload=_PAYLOAD[draft.forwarding]),
    ]
    return "\n".join(parts)


def as_data(draft: Draft) -> dict[str, Any]:
    """The intent's document, and all remarks by the node, link or "draft" they are about."""
    of_nodes = {node.name: node.remarks for node in (*draft.switches, *draft.end_stations)}
    of_links = {" - ".join(map(str, link.ends)): link.remarks for link in draft.links}
    remarks = {"draft": draft.remarks, **of_nodes, **of_links}
    return {
        "intent": yaml.safe_load(as_yaml(draft)),
        "remarks": {about: list(texts) for about, texts in remarks.items() if texts},
    }


def _missing(draft: Draft) -> Iterator[str]:
    if draft.remarks:
        yield "#\n# INCOMPLETE. Not drafted, or in doubt:\n"
        yield from (f"#   - {remark}\n" for remark in draft.remarks)


def _block(key: str, entries: list[tuple[tuple[str, ...], str]], empty: str) -> Iterator[str]:
    """A key of the document with its entries, the remarks of each above it."""
    yield f"{key}:\n" if entries else f"{key}: {empty}\n"
    for remarks, entry in entries:
        yield from (f"  # {remark}\n" for remark in remarks)
        yield f"  {entry}\n"


def _classes(classes: tuple[DraftClass, ...]) -> Iterator[str]:
    """Nothing without any."""
    if classes:
        yield _RUNNING_CLASSES
    for its in classes:
        yield from (f"  # {remark}\n" for remark in its.remarks)
        properties: dict[str, Any] = {"traffic-class": its.number, "priority": its.priority}
        if its.dscps:
            properties["dscp"] = list(its.dscps)
        properties["role"] = str(its.role)
        if its.max_frame_octets:
            properties["max-frame"] = SIZE.format(its.max_frame_octets)
        yield f"  {its.name}: {_flow(properties)}\n"


def _switch(switch: Node, opens: Callable[[int], str]) -> tuple[tuple[str, ...], str]:
    properties: dict[str, Any] = {"ports": list(switch.ports)}
    if management := switch.management:
        address: Any = management.address
        if management.port != NETCONF_PORT:
            address = {"address": address, "port": management.port}
        properties = {"management": address, **properties}
    if switch.bridge not in {None, DEFAULT_BRIDGE_DEVICE} and PORT.fullmatch(switch.bridge):
        properties["bridge"] = switch.bridge
    if switch.profile:
        properties["profile"] = dict(switch.profile)
    elif switch.mode:
        properties["gates"] = str(switch.mode)
    if not switch.lists:
        return switch.remarks, f"{_flow(switch.name)}: {_flow(properties)}"
    del properties["ports"]
    lines = [f"{_flow(switch.name)}:"]
    lines += (f"  {key}: {_flow(value)}" for key, value in properties.items())
    lines.append("  ports:")
    for port in switch.ports:
        lines.append(f"    {_flow(port)}:")
        if its := switch.lists.get(port):
            lines += (f"      {line}" for line in _list(its, opens))
    return switch.remarks, "\n  ".join(lines)


def _list(its: DraftList, opens: Callable[[int], str]) -> Iterator[str]:
    yield from (f"# {remark}" for remark in its.listed.remarks)
    key = list_lines(its.listed, opens)
    if its.obstacle is None:
        yield from key
        return
    yield f"# its list is refused: {its.obstacle}"
    yield from (f"# {line}" for line in key)


def _station(station: Node) -> tuple[tuple[str, ...], str]:
    return station.remarks, f"{_flow(station.name)}: {_flow({'ports': list(station.ports)})}"


def _link(link: DraftLink, default_rate_bps: int | None) -> tuple[tuple[str, ...], str]:
    ends: Any = [str(end) for end in link.ends]
    if link.rate_bps not in (None, default_rate_bps):
        ends = {"ends": ends, "rate": RATE.format(link.rate_bps)}
    return link.remarks, f"- {_flow(ends)}"


def _flow(value: Any) -> str:
    """`value` on one line, with quotes where YAML would read a name as something else."""
    text = yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    )
    return text.strip()[1:-1]
