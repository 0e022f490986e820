"""Replication and elimination in the kernel: an XDP program on each port, and its maps.

The program and the maps are pinned. The maps are what the agent has asked for; so one that is
started again finds that, and sequence numbers, histories and counts go on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject
from agent.kernel import xdp
from agent.kernel.bpf import PinnedObject, program_name
from agent.kernel.netlink_batch import NetlinkSocket, raise_first
from agent.kernel.refusal import reason, set_or_restore
from agent.kernel.xdp import Mode
from agent.mechanism import KernelAdapter, Node, Observation
from agent.mechanisms.frer.latent_errors import Copies, LatentErrorDetector, Watched
from agent.mechanisms.frer.maps import LAYOUT, Maps
from agent.mechanisms.frer.model import (
    Address,
    Counts,
    FrerConfig,
    FrerState,
    LatentErrorDetection,
)
from agent.mechanisms.frer.rules import FrerFunctions, repair
from agent.model import AgentError, PortConfig, PortState

# What has the program in its driver: a veth pair, which is a cable of a lab or of a container. The
# generic mode leaves out frames that came to the pair redirected (netif_receive_generic_xdp), as
# those of the lab's cables do. Other drivers may take their link down to change the mode, which
# stops gates.
_NATIVE_DRIVERS = frozenset({"veth"})


class FrerAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN and CAP_BPF. Not to be used by two threads at once."""

    def __init__(self, pins: Path) -> None:
        self._object = PinnedObject(pins, "frer", LAYOUT)
        self._netlink = NetlinkSocket(socket.NETLINK_ROUTE)
        self.objects = {FrerFunctions: self._replace}
        # The ports that run a program of ours, by the numbers of their interfaces.
        self._attached: dict[int, str] = {}
        self._modes: Mapping[int, Mode] = {}
        self._latent_errors = LatentErrorDetector()
        self._is_watched = False  # whether latent errors of some function are looked for

    def capability(self) -> str | None:
        return self._object.capability()

    def leaves(self) -> Node:
        why = self.capability()
        return {"frer-refused": why} if why else {}

    def close(self) -> None:
        self._netlink.close()

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[FrerConfig] and (why := self._object.problem()):
            yield why

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._attached = dict(states), {}
        self._modes = {each.ifindex: _mode(each) for each in states.values()}
        with_program = {name: each for name, each in states.items() if each.xdp_program is not None}
        if not with_program:
            return found
        own = self._object.program_ids()
        functions: Mapping[int, FrerConfig] = {}
        counts: Mapping[int, Mapping[Address, Counts]] = {}
        if own and self._object.is_pinned:
            functions, counts = self._functions_and_counts()
        for name, state in with_program.items():
            if state.xdp_program in own:
                self._attached[state.ifindex] = name
                at_port = functions.get(state.ifindex, FrerConfig())
                part = FrerState(
                    at_port.generated,
                    at_port.recovered,
                    counts.get(state.ifindex, {}),
                    self._latent_errors.found,
                )
            else:
                part = FrerState(foreign=_name(state.xdp_program))
            found[name] = state.with_part(part)
        self._is_watched = any(_detections(each) for each in functions.values())
        return found

    def observe(self, now_ns: int) -> Observation:
        """Latent errors: nothing is read where none are looked for."""
        if not self._is_watched:
            return Observation()
        functions, counts = self._functions_and_counts()
        watched: dict[int, Watched] = {}
        for ifindex, port in self._attached.items():
            of_port = counts.get(ifindex, {})
            for entry, (detection, addresses) in _detections(functions.get(ifindex)).items():
                copies = watched.setdefault(entry, Watched(detection, {})).copies
                counted = [of_port.get(each, Counts()) for each in addresses]
                copies[port] = Copies(
                    sum(each.passed for each in counted), sum(each.discarded for each in counted)
                )
        events = tuple(self._latent_errors.look(watched, now_ns))
        return Observation(events, self._latent_errors.next_ns)

    def repairs(self) -> Iterator[Change]:
        if self._attached and not self._object.is_current:
            for ifindex, port in self._attached.items():
                yield repair(port, ifindex)

    def _functions_and_counts(
        self,
    ) -> tuple[Mapping[int, FrerConfig], Mapping[int, Mapping[Address, Counts]]]:
        with closing(Maps(self._object)) as maps:
            return maps.functions(), maps.counts()

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the port have what `after` holds; if refused, `before` again and AgentError."""
        port, ifindex = target.port_and_ifindex()
        try:
            set_or_restore(
                lambda content: self._set(port, ifindex, content or FrerConfig()), before, after
            )
        except (AgentError, NetlinkError, OSError) as refusal:
            raise AgentError(
                f"port {port}: the kernel refused frame replication and elimination: "
                f"{reason(refusal)}"
            ) from refusal

    def _set(self, port: str, ifindex: int, functions: FrerConfig) -> None:
        """The maps are right before the program runs, and until it has ended."""
        if not functions:
            self._remove(ifindex)
            return
        program = self._load()
        try:
            with closing(Maps(self._object)) as maps:
                maps.replace(ifindex, functions)
                maps.forget_unused({*self._attached, ifindex})
            self._is_watched |= bool(_detections(functions))
            self._attach(port, ifindex, program)
        finally:
            os.close(program)

    def _load(self) -> int:
        """A descriptor of the program. Where it takes the place of one of a former version, it
        does so at all ports."""
        is_current = self._object.is_pinned and self._object.is_current
        program = self._object.load()
        if not is_current:
            replacements = [
                xdp.attach(each, program, self._modes[each], replaces=True)
                for each in self._attached
            ]
            raise_first(self._netlink.send(replacements))
        return program

    def _attach(self, port: str, ifindex: int, program: int) -> None:
        if ifindex not in self._attached:
            request = xdp.attach(ifindex, program, self._modes[ifindex], replaces=False)
            raise_first(self._netlink.send([request]))
            self._attached[ifindex] = port

    def _remove(self, ifindex: int) -> None:
        if self._attached.pop(ifindex, None) is not None:
            raise_first(self._netlink.send([xdp.detach(ifindex, self._modes[ifindex])]))
        if not self._object.is_pinned:
            return
        if not self._attached:
            self._object.remove()
            return
        with closing(Maps(self._object)) as maps:
            maps.forget_unused(self._attached.keys())


def _detections(
    functions: FrerConfig | None,
) -> dict[int, tuple[LatentErrorDetection, list[Address]]]:
    """How the functions for all ports are watched for latent errors, by their entries, with the
    addresses of their streams."""
    found: dict[int, tuple[LatentErrorDetection, list[Address]]] = {}
    for each in functions.recovered if functions else ():
        if each.combined and (detection := each.combined.latent_errors):
            found.setdefault(each.combined.entry, (detection, []))[1].append(each.address)
    return found


def _mode(port: PortState) -> Mode:
    return Mode.NATIVE if port.driver in _NATIVE_DRIVERS else Mode.GENERIC


def _name(number: int | None) -> str:
    name = program_name(number) if number is not None else None
    return f"{name} (number {number})" if name else f"with the number {number}"
