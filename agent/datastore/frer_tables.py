"""The tables of ieee802-dot1cb-frer, by the ports that they concern. Pure."""

from __future__ import annotations

from agent.mechanism import FRER, STREAM_IDENTITY, Tree

_GENERATION, _RECOVERY, _IDENTIFICATION = (
    f"sequence-{table}" for table in ("generation", "recovery", "identification")
)


def tables_by_port(tree: Tree) -> dict[str, Tree]:
    """The entries of each table that concern a port.

    One of the Sequence generation table names no port: it concerns those where its streams come in
    from their talkers, which the Sequence identification table names with an in-facing function.
    Where that names none of a stream, it concerns the ports where the stream is identified: that
    it has no effect is for these to say.
    """
    node: Tree = tree.get(FRER, {})
    found: dict[str, dict[str, list[Tree]]] = {}

    def add(port: str, table: str, entry: Tree) -> None:
        entries = found.setdefault(port, {}).setdefault(table, [])
        if entry not in entries:
            entries.append(entry)

    for entry in node.get(_IDENTIFICATION, []):
        add(entry["port"], _IDENTIFICATION, entry)
    for entry in node.get(_RECOVERY, []):
        for port in entry["port"]:
            add(port, _RECOVERY, entry)
    for entry in node.get(_GENERATION, []):
        for handle in entry["stream"]:
            for port in _encoding_ports(node, handle) or _identifying_ports(tree, handle):
                add(port, _GENERATION, {**entry, "stream": [handle]})
    return dict(found)


def _encoding_ports(node: Tree, handle: int) -> list[str]:
    return [
        entry["port"]
        for entry in node.get(_IDENTIFICATION, [])
        if entry.get("direction-out-facing") is False and handle in entry["stream"]
    ]


def _identifying_ports(tree: Tree, handle: int) -> list[str]:
    return [
        port
        for entry in tree.get(STREAM_IDENTITY, [])
        if entry["handle"] == handle
        for port in entry.get("out-facing", {}).get("input-port", ())
    ]
