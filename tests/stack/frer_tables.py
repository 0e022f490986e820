"""The tables of ieee802-dot1cb-frer for tests."""

from __future__ import annotations

FRER = "ieee802-dot1cb-frer:frer"


def generation(*handles, index=1, **leaves):
    return {"index": index, "stream": list(handles), "direction-out-facing": False, **leaves}


def recovery(*handles, index=1, ports=("p2", "p3"), **leaves):
    return {
        "index": index,
        "stream": list(handles),
        "port": list(ports),
        "direction-out-facing": True,
        "reset-timeout": 500,
        **leaves,
    }


def numbers(port, *handles, out_facing=False, **leaves):
    """Sequence numbers of these streams are in R-TAGs at the port."""
    return {
        "port": port,
        "direction-out-facing": out_facing,
        "stream": list(handles),
        "active": True,
        "encapsulation": {"r-tag": {}},
        **leaves,
    }


def frer(generations=(), recoveries=(), identifications=()):
    tables = {
        "sequence-generation": list(generations),
        "sequence-recovery": list(recoveries),
        "sequence-identification": list(identifications),
    }
    return {FRER: {name: entries for name, entries in tables.items() if entries}}
