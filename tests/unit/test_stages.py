"""The order in which an agent changes kernel objects, with what would happen in another one."""

from __future__ import annotations

from itertools import permutations

import pytest

from agent.composition import Change, Contribution, KernelObject, compose
from agent.mechanisms import MECHANISMS  # noqa: F401  (all kinds of kernel objects are known then)
from agent.mechanisms.bridged_classification.rules import EgressFilters
from agent.mechanisms.classification.rules import RuleTable
from agent.mechanisms.clock.rules import PtpDaemons
from agent.mechanisms.forwarding.rules import FilteringDatabase
from agent.mechanisms.frer.rules import FrerFunctions
from agent.mechanisms.gates.transmit_quota import TransmitQuota
from agent.mechanisms.identification.rules import StreamFilters as StreamIdentities
from agent.mechanisms.multipath.rules import Addresses, Connections, NamespaceSettings
from agent.mechanisms.received_priority.rules import IngressFilters
from agent.mechanisms.sent_priority.rules import CodePointFilters
from agent.mechanisms.stream_filters.rules import StreamFilters
from agent.mechanisms.talker_offsets.tables import PublishedTables
from agent.root_qdisc import RootQdisc

PRIORITIES = (RuleTable, IngressFilters, EgressFilters)

# (first, then, what happens otherwise)
WHEN_SET = [
    (PtpDaemons, RootQdisc, "gates start by a clock that nothing steers yet"),
    *((each, RootQdisc, "frames meet gates of another class") for each in PRIORITIES),
    (TransmitQuota, RootQdisc, "the first windows are late again after 64 frames"),
    *((each, FilteringDatabase, "streams are forwarded in another class") for each in PRIORITIES),
    (CodePointFilters, FilteringDatabase, "the next switch puts streams into another class"),
    (FilteringDatabase, StreamIdentities, "frames get an address that leads nowhere"),
    (StreamFilters, FilteringDatabase, "a talker's frames pass unfiltered"),
    (StreamFilters, RootQdisc, "frames beyond what was planned fill open windows"),
    (FrerFunctions, FilteringDatabase, "listeners get copies, with their tags"),
    (NamespaceSettings, Addresses, "connections keep the limits from before their endpoints"),
    (Addresses, Connections, "subflows leave by paths without a rule"),
    *(
        (each, PublishedTables, "a talker is told of what is refused then")
        for each in (RootQdisc, FilteringDatabase, StreamIdentities)
    ),
]
WHEN_REMOVED = [
    *((RootQdisc, each, "frames meet gates of another class") for each in PRIORITIES),
    (RootQdisc, TransmitQuota, "the last windows are late again after 64 frames"),
    (StreamIdentities, FilteringDatabase, "frames get an address that leads nowhere"),
    (RootQdisc, StreamFilters, "strangers get into open windows"),
    (FilteringDatabase, FrerFunctions, "listeners get copies, with their tags"),
    (FilteringDatabase, StreamFilters, "a talker's frames pass unfiltered"),
    (Addresses, NamespaceSettings, "connections have endpoints by limits of the system"),
    (Connections, Addresses, "subflows are opened by paths that are going"),
]


def order(*kinds: type[KernelObject], removed: bool = False) -> list[type[KernelObject]]:
    """In which order objects of these kinds are set, or removed, by one change of a switch."""
    contribution = (Contribution("a mechanism", "p1", 0, "content"),)
    before, after = (contribution, ()) if removed else ((), contribution)
    targets = [kind("p1", 2) for kind in kinds]
    present = dict.fromkeys(targets, before)
    changes = [Change("p1", each, before, after, "", "") for each in targets]
    return [type(step.target) for step in compose(present, changes)]


@pytest.mark.parametrize(("first", "then", "_otherwise"), WHEN_SET)
def test_what_others_rest_on_is_set_first(first, then, _otherwise):
    for listed in permutations((first, then)):
        assert order(*listed) == [first, then]


@pytest.mark.parametrize(("first", "then", "_otherwise"), WHEN_REMOVED)
def test_what_rests_on_others_is_removed_first(first, then, _otherwise):
    for listed in permutations((first, then)):
        assert order(*listed, removed=True) == [first, then]


def test_each_kind_of_kernel_object_has_its_place_in_these_tables():
    named = {kind for first, then, _ in (*WHEN_SET, *WHEN_REMOVED) for kind in (first, then)}
    known = {str(each) for each in KernelObject.__subclasses__() if "'agent." in str(each)}
    assert known == {str(each) for each in named}
