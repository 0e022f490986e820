"""Entries of the Stream identity table, as ieee802-dot1cb-stream-identification has them."""

from __future__ import annotations

STREAM_IDENTITY = "ieee802-dot1cb-stream-identification:stream-identity"
TO_STREAM, TO_LISTENER = "02-54-53-4E-00-07", "02-00-5E-00-53-20"
UDP = {"ip-destination": "10.0.1.77", "next-protocol": "udp", "destination-port": 5000}


def identified(index=1, handle=7, port="p1", kind="ip", **parameters):
    """Frames without a tag that come in by `port` are of the stream."""
    return {
        "index": index,
        "handle": handle,
        "out-facing": {"input-port": [port]},
        f"{kind}-stream-identification": {"tagged": "priority", **(parameters or UDP)},
    }


def named(index=1, handle=7, port="p1", facing="out-facing", **parameters):
    """Tagged frames that come in by `port` are of the stream."""
    usual = {"destination-mac": TO_STREAM, "tagged": "tagged", "vlan": 10}
    return {
        "index": index,
        "handle": handle,
        facing: {"input-port": [port]},
        "null-stream-identification": usual | parameters,
    }


def rewritten(index=2, handle=7, port="p1", **down):
    """What the frames of the stream get that come in by `port`."""
    usual = {"destination-mac": TO_STREAM, "tagged": "tagged", "vlan": 10, "priority": 1}
    return {
        "index": index,
        "handle": handle,
        "in-facing": {"output-port": [port]},
        "dmac-vlan-stream-identification": {"down": usual | down},
    }


def restored(index=3, handle=7, port="p2", listener=TO_LISTENER, **down):
    """What the frames of the stream get that leave by `port`."""
    return {
        "index": index,
        "handle": handle,
        "in-facing": {"input-port": [port]},
        "dmac-vlan-stream-identification": {
            "down": {"destination-mac": TO_STREAM, "tagged": "tagged", "vlan": 10} | down,
            "up": {"destination-mac": listener, "tagged": "priority"},
        },
    }


def stream_identities(*entries):
    return {STREAM_IDENTITY: list(entries)}
