"""Stream filters, gates and meters of a bridge, as ieee802-dot1q-psfp-bridge has them."""

from __future__ import annotations

MODULE = "ieee802-dot1q-psfp-bridge"
OPERATION = "ieee802-dot1q-psfp:set-gate-and-ipv"


def a_filter(number=1, gate=1, *, handle=7, **leaves):
    """Of the stream with this handle, whatever its priority and length; None: of any frames."""
    which = {"wildcard": [None]} if handle is None else {"stream-handle": handle}
    return {
        "stream-filter-instance-id": number,
        **which,
        "priority-spec": "wildcard",
        "max-sdu-size": 0,
        "stream-gate-ref": gate,
    } | leaves


def a_gate(number=1, **leaves):
    """Without leaves it is not in operation."""
    return {"stream-gate-instance-id": number} | leaves


def an_entry(index, state, interval_ns, **leaves):
    return {
        "index": index,
        "operation-name": OPERATION,
        "time-interval-value": interval_ns,
        "gate-state-value": state,
        "ipv-spec": "null",
    } | leaves


def with_list(number=1, *entries, cycle_ns=1_000_000, base_s=0, **leaves):
    """A gate in operation; without entries it is open in the first half of each millisecond."""
    listed = entries or (an_entry(0, "open", 500_000), an_entry(1, "closed", 500_000))
    return a_gate(
        number,
        **{
            "gate-enable": True,
            "admin-control-list": {"gate-control-entry": list(listed)},
            "admin-cycle-time": {"numerator": cycle_ns, "denominator": 1_000_000_000},
            "admin-base-time": {"seconds": str(base_s), "nanoseconds": 0},
            "config-change": True,
        }
        | leaves,
    )


def a_meter(number=1, rate_bps=8000, burst_octets=1500, **leaves):
    return {
        "flow-meter-instance-id": number,
        "committed-information-rate": str(rate_bps),
        "committed-burst-size": burst_octets,
        "excess-information-rate": "0",
        "excess-burst-size": 0,
        "coupling-flag": "zero",
        "color-mode": "color-blind",
        "drop-on-yellow": False,
    } | leaves


def psfp(filters, gates, meters=(), bridge="br0"):
    """The tree of the bridge."""
    tables = {
        "stream-filters": {"stream-filter-instance-table": list(filters)},
        "stream-gates": {"stream-gate-instance-table": list(gates)},
        "flow-meters": {"flow-meter-instance-table": list(meters)},
    }
    component = {"name": bridge} | {f"{MODULE}:{name}": node for name, node in tables.items()}
    return {
        "ieee802-dot1q-bridge:bridges": {"bridge": [{"name": bridge, "component": [component]}]}
    }
