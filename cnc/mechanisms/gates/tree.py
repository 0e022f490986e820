"""Gate control lists in the YANG tree (`ieee802-dot1q-sched-bridge`)."""

from __future__ import annotations

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.list_times import list_times
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import NETCONF, SCHED, SCHED_BRIDGE
from cnc.model import GateControlList

_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE, "sched": SCHED})
_REPLACE = {f"{{{NETCONF}}}operation": "replace"}


def gate_table_octets(gates: GateControlList) -> int:
    """How much of an edit a list takes."""
    return len(etree.tostring(gate_table(gates, 0)))


def gate_table(gates: GateControlList, base_time_ns: int) -> Element:
    """The table that runs a list from a base time on."""
    return _GATES(
        "gate-parameter-table",
        _REPLACE,
        _GATES("gate-enabled", "true"),
        _GATES(
            "admin-control-list",
            *(
                _GATES(
                    "gate-control-entry",
                    _GATES("index", str(index)),
                    _GATES("operation-name", "sched:set-gate-states"),
                    _GATES("time-interval-value", str(entry.interval_ns)),
                    _GATES("gate-states-value", str(entry.gate_states)),
                )
                for index, entry in enumerate(gates.entries)
            ),
        ),
        *list_times(_GATES, gates.cycle_ns, base_time_ns),
    )
