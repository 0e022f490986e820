"""The root of a port together with the qdiscs of its transmit queues, set so that gates go on
moving.

What the kernel needs (sch_taprio.c, Linux 6.12; measured in user-mode Linux):

* Grafting or deleting a child takes the device down and up (taprio_graft), which empties all its
  queues and cancels the timer of the gates (taprio_reset). Setting the root once more starts the
  timer again from where it stood. So all children first, then the root, once.
* A deleted child leaves nothing: every frame of its queue is dropped. A queue that needs no child
  gets a pfifo, as taprio itself gives to all of them (taprio_init).
* A child that keeps its kind is changed in place: nothing is grafted, and the gates do not notice.
  An etf cannot be changed (sch_etf.c has no `change`): it is grafted like another kind.

mqprio, the root of a port without gates, has no timer, and leaves as little of a deleted child.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg import plugins

from agent.kernel.refusal import reason
from agent.mechanisms.gates import roots, taprio
from agent.mechanisms.gates.child_rates import scaled
from agent.mechanisms.gates.model import Taprio
from agent.mechanisms.gates.roots import Root
from agent.model import AgentError
from agent.root_qdisc import CHILD_MAJOR, HANDLE, ChildQdisc

Children = Mapping[int, ChildQdisc]  # by transmit queue
Tree = tuple[Root | None, Children]

PLAIN_MAJOR = 0x6A1  # of the handles of queues without a child, with the queue added
PLAIN_KIND = "pfifo"
UNCHANGEABLE = frozenset({"etf"})


def replace(ipr: IPRoute, port: str, ifindex: int, before: Tree, after: Tree) -> None:
    """Bring a port's root and children from `before` to `after`.

    When the kernel refuses, `before` is in force again; raises `AgentError` or `OSError`.
    """
    root, children = _scaled(port, before)
    new_root, new_children = _scaled(port, after)
    if new_root is None:
        roots.change(ipr, port, ifindex, root, None)
        return
    in_place = root is not None and roots.same_fixed_part(root, new_root)
    if not in_place:
        # The qdisc is another one afterwards, without children.
        roots.change(ipr, port, ifindex, root, new_root)
    below = children if in_place else {}
    # Those that were touched, as they are now; what is refused leaves its queue as it was.
    now = dict(below)
    try:
        is_grafted = _change_children(ipr, port, ifindex, now, new_children)
        if is_grafted or (in_place and root != new_root):
            roots.change(ipr, port, ifindex, new_root, new_root)
    except BaseException:
        if not in_place:
            roots.change(ipr, port, ifindex, new_root, root)
            now = {}
        if root and (
            _change_children(ipr, port, ifindex, now, children)
            or (in_place and _hands_classes(root))
        ):
            roots.change(ipr, port, ifindex, root, root)
        raise


def _hands_classes(root: Root) -> bool:
    """Whether it says which classes are preemptable: a taprio keeps also those that the kernel has
    refused, and every later change of it would be refused with them."""
    return isinstance(root, Taprio) and root.preemptable is not None


def restart(ipr: IPRoute, port: str, ifindex: int, root: Taprio, children: Children) -> None:
    """Remove a root that stands still and set it again, with its children.

    AgentError when the kernel refuses; the port then has no gates, or lacks children.
    """
    _, children = _scaled(port, (root, children))
    taprio.restart(ipr, port, ifindex, root)
    if _change_children(ipr, port, ifindex, {}, children):
        roots.change(ipr, port, ifindex, root, root)


def _scaled(port: str, tree: Tree) -> Tree:
    """The same, with the children's rates in the octets that frames count for below this root."""
    root, children = tree
    emulated = root.emulated if isinstance(root, Taprio) else None
    try:
        return root, {queue: scaled(child, emulated) for queue, child in children.items()}
    except AgentError as refusal:
        raise AgentError(f"port {port}: {refusal}") from refusal


def _change_children(
    ipr: IPRoute, port: str, ifindex: int, now: dict[int, ChildQdisc], after: Children
) -> bool:
    """Bring the children from `now`, which is kept up to date, to `after`.

    Returns whether one was grafted, so that the root has to be set once more.
    """
    is_grafted = False
    for queue in sorted(now.keys() | after.keys()):
        old, new = now.get(queue), after.get(queue)
        if old == new:
            continue
        is_changed = bool(old and new and old.kind == new.kind and new.kind not in UNCHANGEABLE)
        is_grafted |= not is_changed
        if old and new and not is_changed:
            _set(ipr, port, ifindex, queue, None)
            del now[queue]
        _set(ipr, port, ifindex, queue, new)
        if new:
            now[queue] = new
        else:
            del now[queue]
    return is_grafted


def _set(ipr: IPRoute, port: str, ifindex: int, queue: int, child: ChildQdisc | None) -> None:
    if child is None:
        kind, options = PLAIN_KIND, {"limit": _tx_queue_length(ipr, ifindex)}
    else:
        kind, options = child.kind, dict(child.options)
    if kind not in plugins:  # pyroute2 would take the root for its parent
        raise AgentError(f"port {port}: pyroute2 has no plugin for the qdisc {kind}")
    major = (CHILD_MAJOR if child else PLAIN_MAJOR) + queue
    parent = HANDLE | (queue + 1)
    try:
        ipr.tc("replace", kind, ifindex, handle=major << 16, parent=parent, **options)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel refused {kind} on transmit queue {queue}: {reason(refusal)}"
        ) from refusal


def _tx_queue_length(ipr: IPRoute, ifindex: int) -> int:
    """The limit that a pfifo has without options (fifo_init); pyroute2 would send 0."""
    (link,) = ipr.get_links(ifindex)
    length: int = link.get("IFLA_TXQLEN")
    return length
