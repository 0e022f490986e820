"""Probes in the places where a process changes or learns something that outlives it.

Each function patches this process, which is then good for nothing else.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import current_thread
from typing import Any

from lxml import etree
from ncclient.operations.rpc import RPC
from pyroute2.netlink import genlmsg
from pyroute2.netlink.nfnetlink import nfgen_msg
from pyroute2.netlink.nlsocket import NetlinkRequest
from pyroute2.netlink.rtnl import RTM_VALUES

from agent.kernel.bpf import Map, PinnedObject
from agent.kernel.netlink_batch import Message, NetlinkSocket, Refusal
from agent.mechanisms.classification.classifier import Classifier
from agent.netconfd.front import server
from cnc.rollout.history import History, Outcome
from cnc.rollout.history.journal import Journal
from cnc.switch import connection
from cnc.switch.jump import Way
from tests.fault.probe import Probe

_OTHER_FAMILIES = {genlmsg: "generic", nfgen_msg: "nftables"}
WATCH = "watch"  # the agent's thread that looks after its ports
_CHANGES = ("RTM_NEWQDISC", "RTM_DELQDISC")


def files(probe: Probe) -> None:
    """Every fsync(2), by the name of the file."""
    fsync = os.fsync

    def probed(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        with probe.around(f"fsync of {name}"):
            fsync(descriptor)

    os.fsync = probed  # type: ignore[assignment]


def broker(connect: Callable[[], Probe]) -> None:
    """Every fsync(2) of the broker that a NETCONF server forks; the probe is connected there."""
    serve_front = server.serve_front

    def serve_front_probed(front: socket.socket, state_dir: Path) -> int:
        files(connect())
        return serve_front(front, state_dir)

    server.serve_front = serve_front_probed


def netlink(probe: Probe) -> None:
    """Every netlink request, by its type, and the change of the DSCP rules.

    What only asks is one step: after it is before the next. What the agent does all the time, to
    notice what others do to its ports, is no step of a rollout.
    """
    send = NetlinkRequest.send

    async def probed(request: NetlinkRequest) -> Any:
        name = _netlink_type(request.msg)
        if current_thread().name == WATCH:
            return await send(request)
        if name not in _CHANGES:
            probe.at(f"before netlink {name}")
            return await send(request)
        with probe.around(f"netlink {name}"):
            return await send(request)

    NetlinkRequest.send = probed
    Classifier.apply = _around(probe, "DSCP rules", Classifier.apply)  # type: ignore[method-assign]


def batches(probe: Probe) -> None:
    """Every batch of netlink requests, by what it changes.

    What asks for an action without a filter (RTM_NEWACTION) only finds out what the kernel has.
    """
    send, transact = NetlinkSocket.send, NetlinkSocket.transact

    def send_probed(kernel: NetlinkSocket, messages: Sequence[Message]) -> list[Refusal]:
        kinds = " ".join(
            dict.fromkeys(str(RTM_VALUES.get(each.kind, each.kind)) for each in messages)
        )
        if not kinds or current_thread().name == WATCH:
            return send(kernel, messages)
        if kinds == "RTM_NEWACTION":
            probe.at(f"before netlink {kinds}")
            return send(kernel, messages)
        with probe.around(f"batch {kinds}"):
            return send(kernel, messages)

    NetlinkSocket.send = send_probed  # type: ignore[method-assign]
    # Nothing but nftables needs transactions.
    NetlinkSocket.transact = _around(probe, "batch nftables", transact)  # type: ignore[method-assign]


def bpf(probe: Probe) -> None:
    """What the programs at ports get and lose: maps and their values, their own loading and end."""
    of_object = ("load", "pin", "unpin", "remove")
    for owner, names in ((Map, ("update", "delete")), (PinnedObject, of_object)):
        for name in names:
            setattr(owner, name, _around(probe, f"BPF {name}", getattr(owner, name)))


def rpcs(probe: Probe, address: str) -> None:
    """Every connection to one NETCONF server, and every RPC on it, by what the operation says."""
    connect, request = connection.open_session, RPC._request

    def connect_probed(*, way: Way, **options: Any) -> Any:
        if way.host != address:
            return connect(way=way, **options)
        with probe.around("connect"):
            return connect(way=way, **options)

    def request_probed(rpc: RPC, operation: etree._Element) -> Any:
        if rpc.session.host != address:
            return request(rpc, operation)
        with probe.around(_rpc_name(operation)):
            return request(rpc, operation)

    connection.open_session = connect_probed
    RPC._request = request_probed


def journal(probe: Probe, switch: str) -> None:
    """What the controller writes down of a rollout, and of this switch in it: SQLite syncs each."""
    begin, result = History.begin, Journal.result

    def begin_probed(history: History, **what: Any) -> Journal:
        with probe.around("journal begin"):
            return begin(history, **what)

    def result_probed(journal: Journal, of_switch: str, outcome: Outcome, detail: str = "") -> None:
        if of_switch != switch:
            result(journal, of_switch, outcome, detail)
            return
        with probe.around(f"journal {outcome}"):
            result(journal, of_switch, outcome, detail)

    History.begin = begin_probed  # type: ignore[assignment, method-assign]
    Journal.result = result_probed  # type: ignore[assignment, method-assign]
    for name in ("decide", "end"):
        setattr(Journal, name, _around(probe, f"journal {name}", getattr(Journal, name)))


def _around(probe: Probe, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def probed(*arguments: Any) -> Any:
        with probe.around(step):
            return function(*arguments)

    return probed


def _netlink_type(message: Any) -> str:
    """Such as "RTM_GETLINK"; the other families by their own names."""
    for family, name in _OTHER_FAMILIES.items():
        if isinstance(message, family):
            return name
    return str(RTM_VALUES[message["header"]["type"]])


def _rpc_name(operation: etree._Element) -> str:
    """Such as "lock running", "commit confirmed" or "commit persist-id"."""
    name = etree.QName(operation).localname
    if name == "commit":
        said = [tag for tag in ("confirmed", "persist-id") if _child(operation, tag) is not None]
    else:
        datastores = [_child(operation, tag) for tag in ("source", "target")]
        said = [etree.QName(at[0]).localname for at in datastores if at is not None and len(at)]
    return " ".join([name, *said])


def _child(operation: etree._Element, name: str) -> etree._Element | None:
    return next(operation.iterchildren(f"{{*}}{name}"), None)
