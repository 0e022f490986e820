"""What the judge asks of mechanisms, each of which answers from the plan alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.violation import Violation
from cnc.model import BridgeForwarding, Intent, Plan, PortRef, Stream, StreamAddress

Told = Mapping[str, BridgeForwarding]
"""What bridges are told, by switch."""

AddressGiven = Callable[[PortRef, Stream], StreamAddress | None]
"""The address that frames of a stream get where they come in without a tag; None: none."""


class Table(NamedTuple):
    """How many `entries` a bridge is told of a table, and how many it holds; more are a violation
    `code`."""

    code: str
    what: str
    entries: int
    holds: int

    @property
    def is_too_small(self) -> bool:
        """Whether there are more than it holds."""
        return self.entries > self.holds


class Mixed(NamedTuple):
    """What may break a promise of a plan while any nodes go by it, and the rest by a sound one that
    follows, of which the `part` that is decided may be another: `judge` says of both. Of some
    streams of the first, by name, nothing is sent; those that come are not yet."""

    part: type
    judge: Callable[[Plan, Plan, Collection[str]], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class Judge:
    """What is wrong with a mechanism's parts of a plan, and what it does to the frames of others.

    `ways` is what is wrong with what bridges are told, wherever frames go; `times` the same when
    they come by `transmissions`, with what all mechanisms add to them. `entering` is what is wrong
    with what bridges do with frames as these come from their talkers: of the bridges that are
    asked about, with the streams that come in there. `is_local`: `ways` and `times` say the same of
    streams whatever others there are, but for those with the same addresses, and of untagged frames
    those that come in by the same port. `table` is that of a switch.
    `address_given` is what follows from what bridges are told. `added_octets` are what the first
    switch puts before the payload of a stream's frames, and the last one takes away; and
    `drops_misfits` is whether the first switch is to drop frames of a stream, in a class by its
    number, that come otherwise than planned. `given` are the ports whose gate control lists an
    operator gives and which run them as they are: no rule for planned lists looks at those.
    `repeats` has the ports with windows that an operator gives, and after how long these repeat;
    and `lists` is what is wrong with what some of all these ports run. `mixed` is what a change
    may break. A hook that is None does nothing.
    """

    ways: Callable[[Plan, Told], Iterator[Violation]] = lambda _plan, _told: iter(())
    times: Callable[[Plan, Told, Sequence[Transmission], AddedOctets], Iterator[Violation]] = (
        lambda _plan, _told, _transmissions, _added_octets: iter(())
    )
    entering: Callable[[Plan, Told, Sequence[Transmission], AddedOctets], Iterator[Violation]] = (
        lambda _plan, _told, _transmissions, _added_octets: iter(())
    )
    is_local: bool = False
    table: Callable[[Plan, str, BridgeForwarding], Table] | None = None
    address_given: Callable[[Told], AddressGiven] | None = None
    added_octets: AddedOctets | None = None
    drops_misfits: Callable[[Intent, str, int], bool] | None = None
    given: Callable[[Plan], Collection[PortRef]] = lambda _plan: ()
    repeats: Callable[[Intent], Mapping[PortRef, int]] = lambda _intent: {}
    lists: Callable[[Plan, Collection[PortRef] | None], Iterator[Violation]] = (
        lambda _plan, _ports: iter(())
    )
    mixed: Mixed | None = None
