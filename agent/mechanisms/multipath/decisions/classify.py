"""The classifier: which mode a connection has, by whose word."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from agent.mechanisms.multipath.decisions.policy import (
    Application,
    ConnectionMode,
    Policy,
    Source,
)


class Features(NamedTuple):
    """What the kernel says of a connection when it begins. `cgroup` is the path of its control
    group, as far as an application names it; None: another one."""

    uid: int
    remote_port: int
    cgroup: str | None = None


class Classified(NamedTuple):
    """`application` is None where none has the connection."""

    mode: ConnectionMode
    application: Application | None
    why: str


def classified(features: Features, policy: Policy) -> Classified:
    """By applications of the user, then by those of the operator, each in their order."""
    for source in (Source.USER, Source.OPERATOR):
        for each in policy.applications:
            if each.source is source and _has(each, features):
                return Classified(each.mode, each, f"application {each.name} of the {source}")
    return Classified(policy.otherwise, None, "no application has it")


def _has(application: Application, features: Features) -> bool:
    """An application without any condition has all connections."""

    def agrees(wanted: Collection[object], value: object) -> bool:
        return not wanted or value in wanted

    return (
        agrees(application.uids, features.uid)
        and agrees(application.remote_ports, features.remote_port)
        and agrees(application.cgroups, features.cgroup)
    )
