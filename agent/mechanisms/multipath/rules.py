"""What a port has and is asked to have of multipath TCP, compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agent.composition import Change, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.mechanisms.multipath.decisions.policy import ConnectionMode, Policy
from agent.mechanisms.multipath.model import (
    DEFAULT_SCHEDULER,
    NAME,
    EndpointState,
    Mode,
    MultipathConfig,
    MultipathState,
    NodeState,
    RoutedPath,
    Values,
)
from agent.model import Clock, PortConfig, PortState


@dataclass(frozen=True, slots=True)
class Addresses(KernelObject):
    """The addresses of one port: their endpoints, rules, and the table of these rules. The content
    is a `RoutedPath`."""

    removed_in: ClassVar[Stage] = Stage.FORWARD
    set_in: ClassVar[Stage] = Stage.FORWARD


@dataclass(frozen=True, slots=True)
class NamespaceSettings(KernelObject):
    """What is set once for all ports. Contents are `Values`, the same from each path.

    The kernel looks at the limits when an endpoint comes, and never again for connections that
    exist: limits come first, and go last.
    """

    removed_in: ClassVar[Stage] = Stage.IDENTIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


@dataclass(frozen=True, slots=True)
class Connections(KernelObject):
    """Who opens and closes the subflows of connections in a namespace. Contents are `Managed`, the
    same from each path."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.PUBLISH


@dataclass(frozen=True, slots=True)
class Managed:
    """By the agent with this policy; None: by the kernel's own path manager."""

    policy: Policy | None = None


SETTINGS, CONNECTIONS = NamespaceSettings(), Connections()


def as_is(state: PortState) -> MultipathConfig:
    its = state[MultipathState]
    if its.path is None:
        return MultipathConfig()
    return MultipathConfig(its.path, its.settings, policy=its.policy)


def contributions(state: PortState) -> Contributions:
    its = state[MultipathState]
    yield from _addresses(state).contributions(its.path)
    yield from _of_namespace(state).contributions(its.settings if its.path else ())
    yield from _of_connections(state).contributions(Managed(its.policy) if its.path else None)


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    asked, its = config[MultipathConfig], state[MultipathState]
    if its.path != asked.path:
        yield _addresses(state).change(
            its.path,
            asked.path,
            description=f"path of multipath TCP: {_path_words(asked.path)}",
            difference=f"its path is {_path_words(its.path)}, configured is "
            f"{_path_words(asked.path)}",
        )
    before = its.settings if its.path else ()
    if before != asked.settings:
        yield _of_namespace(state).change(
            before,
            asked.settings,
            description=f"multipath TCP: {_values_words(asked.settings)}",
            difference=_values_difference(before, asked.settings),
        )
    managed = Managed(its.policy) if its.path else None
    manages = Managed(asked.policy) if asked.path else None
    if managed != manages:
        now, then = _policy_words(its.policy), _policy_words(asked.policy)
        yield _of_connections(state).change(
            managed,
            manages,
            description=f"connections of multipath TCP are managed by {then}",
            difference=f"its connections are managed by {now}, configured is {then}",
        )


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    asked = config[MultipathConfig]
    if asked.path is None:
        return
    values, node = dict(asked.settings), state[NodeState]
    scheduler, control = values.get("scheduler"), values.get("congestion-control")
    has = f"this kernel has: {', '.join(node.schedulers)}"
    if scheduler is not None and scheduler not in node.schedulers:
        yield f"scheduler {scheduler} is not available; {has}"
    elif asked.mode is Mode.LOW_LATENCY and scheduler in (None, DEFAULT_SCHEDULER):
        yield (
            f"mode {asked.mode} needs a scheduler that sends data on more than one path at a "
            f"time: state it as scheduler, or choose another mode; {has}"
        )
    if asked.policy and scheduler in (None, DEFAULT_SCHEDULER):
        for each in asked.policy.applications:
            if each.mode is ConnectionMode.LOW_LATENCY:
                yield (
                    f"application {each.name}: mode {each.mode} needs a scheduler that sends data "
                    f"on more than one path at a time: choose another mode; {has}"
                )
    if control and node.congestion_controls and control not in node.congestion_controls:
        yield (
            f"congestion-control {control} is not available; this kernel has: "
            f"{', '.join(node.congestion_controls)}"
        )
    if foreign := [each for each in state[MultipathState].endpoints if not each.is_ours]:
        names = ", ".join(f"{each.address} (id {each.id})" for each in foreign)
        yield (
            f"another program has made the endpoint of {names}: have it leave this port alone "
            "(NetworkManager: nmcli connection modify NAME connection.mptcp-flags disabled; "
            "mptcpd: systemctl disable --now mptcp) and remove it (ip mptcp endpoint delete id "
            f"{foreign[0].id}), or leave the path out"
        )


def applied(
    state: PortState, contents: Sequence[Any], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these contents: its path, or the settings that come with it.

    It has one address (RFC 5737, 192.0.2.0/24).
    """
    if not contents:
        return state.with_part(MultipathState()).with_part(NodeState())
    (content,) = contents
    before = state[MultipathState]
    if isinstance(content, Managed):
        return state.with_part(replace(before, policy=content.policy))
    if not isinstance(content, RoutedPath):
        settings: Values = content
        node = NodeState(settings=settings)
        return state.with_part(replace(before, settings=settings)).with_part(node)
    flags = content.endpoint_flags
    number = state.ifindex % 256
    endpoint = EndpointState(f"192.0.2.{number}", number, flags or frozenset(), is_ours=True)
    endpoints = () if flags is None else (endpoint,)
    return state.with_part(replace(before, path=content, endpoints=endpoints))


def _addresses(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, Addresses(state.name, state.ifindex))


def _of_connections(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, CONNECTIONS)


def _policy_words(policy: Policy | None) -> str:
    if policy is None:
        return "the kernel"
    applications = len(policy.applications)
    return f"the agent, {applications} applications, others {policy.otherwise}"


def _of_namespace(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, SETTINGS)


def _path_words(path: RoutedPath | None) -> str:
    if path is None:
        return "none"
    if path.lack:
        return path.lack
    if path.endpoint_flags is None:
        return "no endpoints"
    return f"endpoints with {' and '.join(sorted(path.endpoint_flags))}"


def _values_words(values: Values) -> str:
    return ", ".join(f"{name} {value}" for name, value in values) or "as it was found"


def _values_difference(before: Values, after: Values) -> str:
    then, now = dict(before), dict(after)
    words = [
        f"{name} is {then.get(name, 'not set')}, configured is {now.get(name, 'nothing')}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]
    return "; ".join(words)
