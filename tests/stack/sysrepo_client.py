"""Another party on the agent's sysrepo: writes configuration, reads what the agent publishes."""

from __future__ import annotations

import json

INTERFACES = "/ietf-interfaces:interfaces"
BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
GATES = "ieee802-dot1q-sched-bridge:gate-parameter-table"
INTERFACE_GATES = "ieee802-dot1dc-sched-if:gate-parameter-table"

NOW_NS = 1_000_000_000_000_250_000  # a quarter of a millisecond into a cycle
BASE_TIME_S = NOW_NS // 10**9 - 10


def entry(index, states, interval_ns, operation="set-gate-states"):
    return {
        "index": index,
        "operation-name": f"ieee802-dot1q-sched:{operation}",
        "gate-states-value": states,
        "time-interval-value": interval_ns,
    }


HALF_AND_HALF = (entry(0, 0b10, 500_000), entry(1, 0b01, 500_000))


def gated_interface(name, entries=HALF_AND_HALF, **options):
    """The same port with its gate table directly under the interface."""
    port = gated(name, entries, **options)
    port[INTERFACE_GATES] = port[BRIDGE_PORT].pop(GATES)
    return port


def gated(name, entries=HALF_AND_HALF, *, base_time_s=BASE_TIME_S, **changes):
    """A port with two classes and a cycle of 1 ms."""
    gates = {
        "gate-enabled": True,
        "config-change": True,
        "admin-control-list": {"gate-control-entry": list(entries)},
        "admin-cycle-time": {"numerator": 1, "denominator": 1000},
        "admin-base-time": {"seconds": str(base_time_s), "nanoseconds": 0},
    }
    return {
        "name": name,
        "type": "iana-if-type:ethernetCsmacd",
        BRIDGE_PORT: {
            "traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}},
            GATES: gates | changes,
            "tsn-linux:dscp-rule": [{"dscp": 46, "priority": 7}],
        },
    }


class Client:
    """Somebody else on the same sysrepo, with a session of its own for each request."""

    def __init__(self, connection):
        self._connection = connection

    def replace(self, *interfaces, timeout_ms=0):
        """Make these interfaces the whole running configuration."""
        with self._connection.start_session() as session:
            session.replace_config(
                {"interfaces": {"interface": list(interfaces)}},
                "ietf-interfaces",
                strict=True,
                timeout_ms=timeout_ms,
            )

    def merge(self, data):
        """Merge RFC 7951 data, of any modules, into the running configuration: one commit."""
        with self._connection.start_session() as session, session.get_ly_ctx() as context:
            tree = context.parse_data_mem(json.dumps(data), "json", parse_only=True, strict=True)
            session.edit_batch_ly(tree)
            tree.free()
            session.apply_changes()

    def delete(self, *xpaths):
        """Delete nodes of the running configuration in one commit."""
        with self._connection.start_session() as session:
            for xpath in xpaths:
                session.delete_item(xpath)
            session.apply_changes()

    def read(self, xpath, datastore="operational"):
        with (
            self._connection.start_session(datastore) as session,
            session.get_data_ly(xpath) as tree,
        ):
            return json.loads(tree.print_mem("json", with_siblings=True))

    def interface(self, name, datastore="operational"):
        interfaces = self.read(INTERFACES, datastore).get("ietf-interfaces:interfaces", {})
        return next((i for i in interfaces.get("interface", []) if i["name"] == name), None)

    def port(self, name):
        return self.interface(name)[BRIDGE_PORT]
