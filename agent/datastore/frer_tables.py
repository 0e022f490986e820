"""The tables of ieee802-dot1cb-frer, by the ports that they concern. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from agent.mechanism import FRER, STREAM_IDENTITY, Tree
from agent.mechanisms.frer.tree import GENERATION, RECOVERY, SEQUENCE_IDENTIFICATION

# The ports of each stream, by its handle; the keys of a dictionary keep the order of the tables.
_Ports = Mapping[int, Collection[str]]


def tables_by_port(tree: Tree) -> dict[str, Tree]:
    """The entries of each table that concern a port.

    One of the Sequence generation table names no port: it concerns those where its streams come in
    from their talkers, which the Sequence identification table names with an in-facing function.
    Where that names none of a stream, it concerns the ports where the stream is identified: that
    it has no effect is for these to say.
    """
    node: Tree = tree.get(FRER, {})
    encoding, identifying = _encoding_ports(node), _identifying_ports(tree)
    found: defaultdict[str, defaultdict[str, list[Tree]]] = defaultdict(lambda: defaultdict(list))
    for entry in node.get(SEQUENCE_IDENTIFICATION, []):
        found[entry["port"]][SEQUENCE_IDENTIFICATION].append(entry)
    for entry in node.get(RECOVERY, []):
        for port in entry["port"]:
            found[port][RECOVERY].append(entry)
    for entry in node.get(GENERATION, []):
        for handle in entry["stream"]:
            for port in encoding.get(handle) or identifying.get(handle, ()):
                found[port][GENERATION].append({**entry, "stream": [handle]})
    return {port: dict(tables) for port, tables in found.items()}


def _encoding_ports(node: Tree) -> _Ports:
    found: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for entry in node.get(SEQUENCE_IDENTIFICATION, []):
        if entry.get("direction-out-facing") is False:
            for handle in entry["stream"]:
                found[handle][entry["port"]] = None
    return found


def _identifying_ports(tree: Tree) -> _Ports:
    found: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for entry in tree.get(STREAM_IDENTITY, []):
        found[entry["handle"]] |= dict.fromkeys(entry.get("out-facing", {}).get("input-port", ()))
    return found
