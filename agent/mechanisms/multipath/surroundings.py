"""What decisions about connections are made from, gathered at each look: links, limits, heat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyroute2 import IPRoute

from agent import whole_file
from agent.boot import boot_id
from agent.events import MultipathEvent
from agent.kernel.ethtool import Ethtool
from agent.mechanisms.multipath import feeder
from agent.mechanisms.multipath.connections import PathUse
from agent.mechanisms.multipath.decisions.data_limit import Use, used
from agent.mechanisms.multipath.decisions.heat import is_hot
from agent.mechanisms.multipath.decisions.policy import PathPolicy, Policy
from agent.mechanisms.multipath.decisions.radio import Radio, is_poor
from agent.mechanisms.multipath.feeder import Wireless

MAX_FILE_OCTETS = 1 << 16


class PathLink(NamedTuple):
    """The port of a path, and the addresses that subflows leave from."""

    ifindex: int
    addresses: Sequence[str]


class Surroundings(NamedTuple):
    """`demoted` says by path why it is a backup; `cgroups` are those that applications name, by the
    id that sockets have; rates are those of links, in bit/s."""

    addresses: Mapping[str, Sequence[str]]
    demoted: Mapping[str, str]
    rates_bps: Mapping[str, int | None]
    cgroups: Mapping[int, str]
    hot: bool


class Gatherer:
    """Of the network namespace in which it is made; `record` is the file that has since when the
    octets of a path count towards its limit."""

    def __init__(self, ipr: IPRoute, record: Path) -> None:
        self._ipr, self._record = ipr, record
        self._ethtool, self._wireless = Ethtool(), Wireless()
        self._bases = dict(_read(record))
        self._warned: set[str] = set()
        self._hot = False
        self.paths: Mapping[str, PathUse] = {}
        self.millicelsius: int | None = None

    def close(self) -> None:
        self._ethtool.close()
        self._wireless.close()

    def gather(
        self, policy: Policy, links: Mapping[str, PathLink]
    ) -> tuple[Surroundings, list[MultipathEvent]]:
        """As they are now, and what has become of paths since the last call."""
        named = [(each, links[each.interface]) for each in policy.paths if each.interface in links]
        self._keep_bases({each.interface for each in policy.paths if each.limit_octets is not None})
        before = self.paths
        self.paths = {path.interface: self._use(path, link) for path, link in named}
        events = [*self._near_limits(policy), *_demotions(before, self.paths)]
        if policy.heat:
            self.millicelsius = feeder.millicelsius(policy.heat.zone)
        self._hot = is_hot(self._hot, self.millicelsius, policy.heat)
        wanted = {each for application in policy.applications for each in application.cgroups}
        around = Surroundings(
            {path.interface: link.addresses for path, link in named},
            {name: use.demoted for name, use in self.paths.items() if use.demoted},
            {name: self._rate_bps(name, use.radio) for name, use in self.paths.items()},
            feeder.cgroup_ids(wanted),
            self._hot,
        )
        return around, events

    def _use(self, path: PathPolicy, link: PathLink) -> PathUse:
        octets = self._octets(path, link)
        has_conditions = path.radio_technologies or path.minimum_signal_dbm is not None
        radio = self._wireless.radio(link.ifindex) if has_conditions else Radio()
        demoted = _exceeded(path) if used(path, octets) is Use.EXCEEDED else is_poor(path, radio)
        return PathUse(octets, demoted, radio)

    def _rate_bps(self, name: str, radio: Radio) -> int | None:
        return radio.rate_bps or self._ethtool.speed_bps(name)

    def _near_limits(self, policy: Policy) -> Iterator[MultipathEvent]:
        uses = {each.interface: self.paths.get(each.interface, PathUse()) for each in policy.paths}
        near = {
            each.interface
            for each in policy.paths
            if used(each, uses[each.interface].octets) is not Use.WITHIN
        }
        for name in sorted(near - self._warned):
            octets = str(uses[name].octets)
            yield MultipathEvent("data-limit-near", {"interface": name, "octets": octets})
        self._warned = near

    def _octets(self, path: PathPolicy, link: PathLink) -> int | None:
        """Since the path has a limit; None where it has none."""
        if path.limit_octets is None:
            return None
        octets = feeder.octets(self._ipr, link.ifindex)
        if octets is None:
            return None
        base = self._bases.get(path.interface)
        if base is None or octets < base:  # another interface of that name begins at 0
            base = octets if base is None else 0
            self._bases[path.interface] = base
            self._write()
        return octets - base

    def _keep_bases(self, names: set[str]) -> None:
        if self._bases.keys() - names:
            self._bases = {name: base for name, base in self._bases.items() if name in names}
            self._write()

    def _write(self) -> None:
        self._record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        content = json.dumps({"boot-id": boot_id(), "bases": self._bases}).encode()
        whole_file.replace(self._record, content, durable=False)


def _demotions(
    before: Mapping[str, PathUse], now: Mapping[str, PathUse]
) -> Iterator[MultipathEvent]:
    for name, use in sorted(now.items()):
        was = before.get(name, PathUse()).demoted
        if use.demoted and not was:
            yield MultipathEvent("path-demoted", {"interface": name, "reason": use.demoted})
        elif was and not use.demoted:
            yield MultipathEvent("path-restored", {"interface": name})


def _exceeded(path: PathPolicy) -> str:
    return f"its data limit of {path.limit_octets} octets is exceeded"


def _read(record: Path) -> Iterator[tuple[str, int]]:
    """Nothing where there is no record of this boot: interfaces count from 0 again."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        with record.open("rb") as file:
            kept = json.loads(file.read(MAX_FILE_OCTETS))
        if kept["boot-id"] == boot_id():
            yield from ((str(name), int(base)) for name, base in kept["bases"].items())
