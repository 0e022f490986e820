"""Which edits a user may not make whatever there is: NACM (RFC 8341), section 3.2.5.

sysrepo looks up what an edit is about, and asks NACM then about what the edit changes. To who may
not read a node, data-exists, data-missing and an edit that changes nothing would tell whether it
exists, and what its value is. So who may not read a node may edit it with all the rights create,
update and delete, and not with some of them: this is decided by the edit alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.netconfd.broker.data_access import DataAccess, Step, steps_of
from agent.sysrepo.edits import EditNode

# Of an inner node they say only that what they are given for is below it.
_NAMING = frozenset({"merge", "none"})


def find_refused(access: DataAccess, nodes: Iterable[EditNode], operation: str) -> str | None:
    """The path of the first node in an edit that its user may not edit, None if there is none.

    `operation` is that of `nodes` which have none of their own.
    """
    for node in nodes:
        path, own = node.path, node.operation or operation
        steps, children = steps_of(path), list[EditNode]()
        asked = [] if node.neighbour is None else [_beside(steps, node.neighbour)]
        if not access.may_edit_all_below(steps):
            children += node.children()
            if own not in _NAMING or not (children or node.is_mere_container):
                asked.append(steps)
            if own not in _NAMING and (
                own != "create" or (node.is_mere_container and own != operation)
            ):
                # All below is deleted or replaced, or makes a mere container exist.
                asked += access.hidden_below(steps)
        if not all(map(access.may_edit, asked)):
            return path
        if (refused := find_refused(access, children, own)) is not None:
            return refused
    return None


def _beside(node: Sequence[Step], keys: str) -> tuple[Step, ...]:
    *above, last = node
    (other,) = steps_of(f"/{last.module}:{last.name}{keys}")
    return (*above, other)
