"""Two plans in every mixture: may any of the nodes run by the one while the others run by the next?

A rollout changes nodes one after the other, and a node that does not answer stays behind. Every
stream that is the same in both plans has to keep its promise meanwhile, whatever each port, switch
and talker goes by. So the rules of the judge are asked, with either list on each port that gets
another one, about all frames that may be on the way at once:

- those of streams that stay the same, and of streams that go until their talkers have stopped;
- of a stream that moves those of both places, as its talker may go by either;
- of a stream that comes none: it is announced when all nodes know it.

Frames leave early by whichever list lets them. What a switch is told of a stream follows from this
stream alone, so that it is the same of those that stay; no other one may get an address, or be
known by what a frame has, that frames under way may have. All others that meet a switch by the
other plan are dropped there, which harms nobody but the streams that the change is about.

A disturbance in the very moment of a change is not looked at.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import lcm
from typing import NamedTuple

from cnc.account.frames import Transmission, earliest_start_ns
from cnc.account.openings import GateCycle, Openings
from cnc.account.violation import Violation
from cnc.check.change.differences import Named, differences
from cnc.check.change.known import Frames, Known, by_port
from cnc.check.change.parts import bridges_of, part_of
from cnc.check.forwarding import judge_forwarding
from cnc.check.lists import readable_lists
from cnc.check.mechanisms import judge_times
from cnc.check.paths import transmissions_of
from cnc.check.queues import judge_links, judge_queues
from cnc.check.seams import judge_seams
from cnc.check.shared import judge_shared
from cnc.check.windows import judge_windows
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import Elimination, Plan, PortRef


class _Either(NamedTuple):
    """A port that goes by one of two lists; None: by none."""

    before: GateCycle | None
    after: GateCycle | None

    def earliest_start_ns(
        self, number: int, earliest_ns: int, planned_ns: int, period_ns: int
    ) -> int:
        """By the list that lets frames leave sooner."""
        return min(
            each.earliest_start_ns(number, earliest_ns, planned_ns, period_ns)
            if each
            else earliest_ns
            for each in self
        )


class Mixture:
    """The plan that is known beside a sound one on the same ground. Of the streams `silent` of the
    first nothing is sent."""

    def __init__(
        self, known: Known, plan: Plan, named: Named | None, silent: Collection[str]
    ) -> None:
        self._known = known
        self._plan = plan
        before = known.plan
        differ = differences(before, plan, named)
        self._differ = differ.streams
        other = {n for n in differ.streams if place(before, n) != place(plan, n)}
        self._silent = frozenset(silent)
        self._going = (other & before.streams.keys()) - plan.streams.keys() - self._silent
        self._moving = other & before.streams.keys() & plan.streams.keys() - self._silent
        self._coming = (other & plan.streams.keys()) - self._moving
        self._other = other
        gates = {port: plan.gates[port] for port in differ.lists if port in plan.gates}
        cycles_ns = lcm(*(its.cycle_ns for its in gates.values()))  # they go with the streams
        lists = readable_lists(replace(plan, gates=gates), cycles_ns)
        self._lists = {port: lists.get(port) for port in differ.lists}
        self._leaving: dict[PortRef, dict[str, Frames]] = {}
        # By port and stream that moves: its frames at its next place.
        self._moved: defaultdict[PortRef, dict[str, Frames]] = defaultdict(dict)

    def judge(self) -> Iterator[Violation]:
        """What may break the promise to a stream that stays the same."""
        yield from self._judge_addresses()
        yield from self._judge_identities()
        yield from self._judge_streams()
        yield from self._judge_ports()

    def _judge_addresses(self) -> Iterator[Violation]:
        before, after = self._known.plan, self._plan
        for name in sorted((self._moving | self._coming) & after.addresses.keys()):
            address = after.addresses[name]
            users = self._known.users.get(address, set()) - self._silent
            others = sorted(user for user in users if not self._is_told_apart(user, name))
            user = name if name in users else next(iter(others), None)
            if user is None:
                continue
            if user != name:
                text = f"gets {address}, and frames of stream {user} may be on the way to it"
                yield Violation("address", name, text)
            elif _ways(before, name) != _ways(after, name):
                text = (
                    f"keeps {address} on another path, and switches may send its frames on by both"
                )
                yield Violation("address", name, text)
        for name in sorted(self._moving):
            if after.intent.streams[name].identification is None:
                continue
            its = before.addresses.get(name), _ways(before, name)
            if its != (after.addresses.get(name), _ways(after, name)):
                text = (
                    "is sent untagged, and switches may send frames of its previous place elsewhere"
                )
                yield Violation("identification", name, text)

    def _is_told_apart(self, user: str, name: str) -> bool:
        """Whether the PCP tells frames of a stream of the first plan from those of another one of
        the second, which share an address there."""
        before, after = self._known.plan, self._plan
        stays = after.addresses.get(user) == after.addresses[name]
        return stays and before.class_of(user).priority != after.class_of(name).priority

    def _judge_identities(self) -> Iterator[Violation]:
        """Of all that go, come or move, with those that come in untagged beside them."""
        before, names = self._known.plan, self._going | self._coming | self._moving
        beside: set[str] = set()
        for its in (before, self._plan):
            for name in names & its.streams.keys():
                stream = its.intent.streams[name]
                for hop in its.streams[name].hops if stream.identification is not None else ():
                    if hop.egress.node == stream.talker:
                        beside |= self._known.leaving.get(hop.egress, {}).keys() - self._silent
        untagged = before.intent.streams
        names |= {name for name in beside if untagged[name].identification is not None}
        part = self._both(names)
        yield from judge_forwarding(part, bridge_forwardings(part, bridges_of(part)))

    def _judge_streams(self) -> Iterator[Violation]:
        """Those that may leave a port earlier than by the plan before, or that switches recover by
        another history."""
        known, before = self._known, self._known.plan
        either = {port: _Either(known.lists.get(port), its) for port, its in self._lists.items()}
        lists: ChainMap[PortRef, Openings] = ChainMap({**either}, {**known.lists})
        travel = replace(known.travel, lists=lists)
        sooner = {
            t.stream
            for port in either.keys() & known.leaving.keys()
            for its in known.leaving[port].values()
            for t in its
            if t.ingress is not None
            and earliest_start_ns(either[port], t) < earliest_start_ns(either[port].before, t)
        } - self._silent
        found, violations = transmissions_of(part_of(before, sooner), travel)
        staying = before.streams.keys() - self._other
        yield from (each for each in violations if each.where in staying)
        frames = _by_stream(found)
        for name, its in frames.items():
            self._add(name, its, in_place_of=known.frames[name])
        for name in self._silent:
            self._add(name, (), in_place_of=known.frames.get(name, ()))
        moved, _ = transmissions_of(part_of(self._plan, self._moving), travel)
        for name, its in _by_stream(moved).items():
            for port, leaving in by_port(its).items():
                self._moved[port][name] = leaving
        recovered = {
            name
            for name in (sooner | self._differ) & staying
            if before.intent.streams[name].elimination is Elimination.SWITCH
        }
        all_frames = [t for name in recovered for t in frames.get(name, known.frames.get(name, ()))]
        for each in (before, self._plan) if recovered else ():
            part = part_of(each, recovered)
            yield from judge_times(part, bridge_forwardings(part, bridges_of(part)), all_frames)

    def _judge_ports(self) -> Iterator[Violation]:
        known = self._known
        ports = self._leaving.keys() | self._moved.keys() | self._lists.keys()
        found: dict[Violation, None] = {}
        for sent in self._sent(ports):
            found.update(dict.fromkeys(judge_links(sent)))
            found.update(dict.fromkeys(judge_queues(sent)))
            part = self._both({t.stream for t in sent})
            for gates, changed in ((known.plan.gates, {}), (self._plan.gates, self._lists)):
                lists = {
                    port: its
                    for port in ports
                    if (its := changed.get(port, known.lists.get(port))) is not None
                }
                going_by = replace(part, gates=gates)
                for rule in (judge_shared, judge_windows, judge_seams):
                    found.update(dict.fromkeys(rule(going_by, lists, sent)))
        yield from found

    def _sent(self, ports: Collection[PortRef]) -> Iterator[list[Transmission]]:
        """What leaves by these ports: all that stays, and of each two streams that move both places
        of the one with both of the other, some time.

        Rules are about two frames, or two streams, at a time. Both places of one stream are looked
        at together where its frames share windows with others, or where a frame at the one may be
        on a link with the one of the next period at the other.
        """
        moving = sorted({name for port in ports for name in self._moved.get(port, ())})
        apart = [name for name in moving if self._is_either(name, ports)]
        for bit in (None, *range((len(apart) - 1).bit_length())):
            for is_first in (False, True) if apart else (False,):
                at_next = {
                    name
                    for number, name in enumerate(apart)
                    if (bit is None or number >> bit & 1) == is_first
                }
                at_former = {*apart} - at_next
                yield [
                    t
                    for port in ports
                    for its in (
                        self._leaving_by(port, without=at_next),
                        {n: f for n, f in self._moved.get(port, {}).items() if n not in at_former},
                    )
                    for frames in its.values()
                    for t in frames
                ]

    def _is_either(self, name: str, ports: Collection[PortRef]) -> bool:
        for port in ports:
            now = self._moved.get(port, {}).get(name, ())
            both = (*now, *self._leaving_by(port).get(name, ()))
            if any(t.is_shared for t in both):
                return False
            if now and len({t.period_ns for t in both}) > 1:
                return False
            lasts_ns = max((t.busy_until_ns for t in both), default=0)
            if both and lasts_ns - min(t.offset_ns for t in both) > both[0].period_ns:
                return False
        return True

    def _leaving_by(self, port: PortRef, without: Collection[str] = ()) -> Mapping[str, Frames]:
        """What leaves by a port at its place in the plan before, by stream."""
        found = self._leaving.get(port, self._known.leaving.get(port, {}))
        return {n: its for n, its in found.items() if n not in without} if without else found

    def _add(self, name: str, frames: Frames, *, in_place_of: Frames) -> None:
        """Frames that may be on the way in place of others."""
        former, now = by_port(in_place_of), by_port(frames)
        for port in former.keys() | now.keys():
            if former.get(port) != now.get(port):
                its = self._leaving.setdefault(port, {**self._known.leaving.get(port, {})})
                its[name] = now.get(port, ())

    def _both(self, names: Collection[str]) -> Plan:
        """The parts of both plans that are about these streams, of what differs as in the next."""
        one, other = part_of(self._known.plan, names), part_of(self._plan, names)
        streams = {**one.intent.streams, **other.intent.streams}
        return replace(
            other,
            intent=replace(other.intent, streams=streams),
            streams={**one.streams, **other.streams},
            addresses={**one.addresses, **other.addresses},
        )


def place(plan: Plan, name: str) -> tuple[object, ...]:
    """What a stream is and where its frames are: not what is promised of them."""
    planned = plan.streams.get(name)
    paths = planned.paths if planned else None
    return plan.intent.streams.get(name), paths, plan.addresses.get(name)


def _ways(plan: Plan, name: str) -> set[PortRef]:
    return {hop.egress for hop in plan.streams[name].hops}


def _by_stream(transmissions: list[Transmission]) -> dict[str, Frames]:
    found: defaultdict[str, list[Transmission]] = defaultdict(list)
    for t in transmissions:
        found[t.stream].append(t)
    return {name: tuple(its) for name, its in found.items()}
