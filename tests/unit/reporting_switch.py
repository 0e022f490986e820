"""A foreign switch by script, over real SSH: it reports which list runs and which is pending, and
its clock, as no server without instrumentation does."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.tree import BRIDGE, INTERFACES, SCHED_BRIDGE
from cnc.model import NS_PER_S
from tests.unit.strange_switch import BASE, END_OF_MESSAGE, OK

Element = etree._Element
TAI_OFFSET_S = 37
_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE})
_CAPABILITY = "urn:ietf:params:netconf:capability:"
HELLO = (
    f'<hello xmlns="{BASE}"><capabilities>'
    "<capability>urn:ietf:params:netconf:base:1.0</capability>"
    + "".join(
        f"<capability>{_CAPABILITY}{each}</capability>"
        for each in ("candidate:1.0", "validate:1.1", "startup:1.0")
    )
    + "</capabilities><session-id>7</session-id></hello>"
)
_NO_SUCH = (
    "<rpc-error><error-type>protocol</error-type><error-tag>operation-not-supported</error-tag>"
    "<error-severity>error</error-severity></rpc-error>"
)


def as_pending(table: Element) -> None:
    """The state of a switch on which what is configured waits for its base time."""
    table.append(_GATES("config-pending", "true"))


@dataclass
class Script:
    """`reports` adds the state of a gate table to what is configured of it; `asked` are the
    operations."""

    ports: tuple[str, ...]
    reports: Callable[[Element], None] = as_pending
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        ports = "".join(
            f"<interface><name>{name}</name><oper-status>up</oper-status>"
            f'<bridge-port xmlns="{BRIDGE}"><port-number>{number}</port-number></bridge-port>'
            "</interface>"
            for number, name in enumerate(self.ports, start=1)
        )
        self.running = etree.fromstring(
            f'<data xmlns="{BASE}"><interfaces xmlns="{INTERFACES}">{ports}</interfaces>'
            f'<bridges xmlns="{BRIDGE}"><bridge><name>br0</name><component><name>c1</name>'
            "<filtering-database/></component></bridge></bridges></data>"
        )
        self.candidate = deepcopy(self.running)

    def answer(self, request: str) -> str:
        (operation,) = etree.fromstring(request.encode().removesuffix(END_OF_MESSAGE).strip())
        name = etree.QName(operation).localname
        self.asked.append(name)
        if name == "get-data":
            return _NO_SUCH
        if name == "get-config":
            return etree.tostring(self.running).decode()
        if name == "get":
            return etree.tostring(self._state()).decode()
        if name == "edit-config":
            self._edit(operation)
        elif name == "commit":
            self.running = deepcopy(self.candidate)
        elif name == "discard-changes":
            self.candidate = deepcopy(self.running)
        return OK

    def _edit(self, operation: Element) -> None:
        for edited in operation.iter(f"{{{INTERFACES}}}interface"):
            port = self._port(edited[0].text or "")
            for its in edited.iter(f"{{{SCHED_BRIDGE}}}gate-parameter-table"):
                for former in port.findall(f"{{{SCHED_BRIDGE}}}gate-parameter-table"):
                    port.remove(former)
                if "remove" not in its.attrib.values():
                    port.append(deepcopy(its))
        (database,) = self.candidate.iter(f"{{{BRIDGE}}}filtering-database")
        for edited in operation.iter(f"{{{BRIDGE}}}filtering-database"):
            database.extend(deepcopy(each) for each in edited)

    def _port(self, name: str) -> Element:
        return next(
            each[2]
            for each in self.candidate.iter(f"{{{INTERFACES}}}interface")
            if each[0].text == name
        )

    def _state(self) -> Element:
        state = deepcopy(self.running)
        now_ns = time.time_ns() + TAI_OFFSET_S * NS_PER_S
        for port in state.iter(f"{{{BRIDGE}}}bridge-port"):
            table = port.find(f"{{{SCHED_BRIDGE}}}gate-parameter-table")
            if table is None:
                table = _GATES("gate-parameter-table", _GATES("gate-enabled", "false"))
                port.append(table)
            else:
                self.reports(table)
            seconds, nanoseconds = divmod(now_ns, NS_PER_S)
            table.append(
                _GATES(
                    "current-time",
                    _GATES("seconds", str(seconds)),
                    _GATES("nanoseconds", str(nanoseconds)),
                )
            )
        return state
