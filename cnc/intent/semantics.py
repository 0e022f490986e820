"""Builds the model from a well-shaped document, or reports inconsistent values."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.intent.network import check_preemption, network
from cnc.intent.profiles import check_profiles
from cnc.intent.streams import check_room, check_streams
from cnc.keys import shape
from cnc.keys.contributed import KEYS
from cnc.keys.problems import Problems
from cnc.model import (
    DEFAULT_ADDRESS_RANGE,
    DEFAULT_INDIVIDUAL_RANGE,
    AddressRange,
    ClassRole,
    Forwarding,
    Intent,
    Parts,
    Stream,
    TrafficClass,
    Windows,
)


def build(
    document: shape.Document, problems: Problems, *, of_plan: bool, best_effort: bool
) -> Intent:
    """The intent of a document, or `InputError` with every problem found; `of_plan`: where it comes
    from, and `best_effort`: whether streams may be left out of its plan, as for `from_document`."""
    classes = {name: _class(name, its) for name, its in document.classes.items()}
    assignable, individual = _address_ranges(document)
    intent = Intent(
        document.name,
        network(document, problems),
        classes,
        streams(document, classes),
        problems.document,
        assignable=assignable,
        individual=individual,
        parts=Parts.of(
            *(part for each in KEYS for part in each.read(document, problems)),
        ),
    )
    for each in KEYS:
        intent = each.completed(intent)
    if not of_plan:
        check_preemption(document, intent, problems)
    check_profiles(document, problems)
    _check_classes(intent, problems)
    _check_class_windows(document, problems)
    check_streams(intent, problems)
    for each in KEYS:
        each.check(document, intent, problems)
    if problems.empty and not (of_plan or best_effort):
        check_room(intent, problems)
    problems.raise_if_any()
    return intent


def streams(document: shape.Document, classes: Mapping[str, TrafficClass]) -> dict[str, Stream]:
    """The streams of a document, in a network with these classes."""
    scheduled = tuple(
        name
        for name, its in classes.items()
        if its.role is ClassRole.SCHEDULED and not its.windows_are_given
    )
    return {
        name: _stream(name, its, _classes_of_pcp(its, classes, its.class_ or scheduled), document)
        for name, its in document.streams.items()
    }


def _address_ranges(document: shape.Document) -> tuple[AddressRange, AddressRange]:
    """The addresses that a plan may assign, those of one station each the second."""
    its = document.addresses
    if its is None:
        return DEFAULT_ADDRESS_RANGE, DEFAULT_INDIVIDUAL_RANGE
    return AddressRange(*its.macs, its.vlans), AddressRange(*its.individual_macs, its.vlans)


def _classes_of_pcp(
    its: shape.Stream, classes: Mapping[str, TrafficClass], names: tuple[str, ...]
) -> tuple[str, ...]:
    """Those of the classes `names` that the PCP of a stream leads to; all of them where it states
    none, or one that leads to none of them, which a check of forwarding reports."""
    led_to = tuple(name for name in names if name in classes and classes[name].priority == its.pcp)
    return led_to or names


def _class(name: str, its: shape.Class) -> TrafficClass:
    return TrafficClass(
        name,
        its.traffic_class,
        its.priority,
        its.dscp,
        its.role,
        its.max_frame_octets,
        its.burst,
        its.rate_bps,
        its.min_share_ppb,
        its.reserve_ppb or 0,
        windows_are_given=its.share is not None or any(each.gives_windows(its) for each in KEYS),
        shaper=its.shaping.shaper if its.shaping else None,
        idle_slope_bps=(its.shaping.idle_slope_bps or 0) if its.shaping else 0,
    )


def _stream(
    name: str, its: shape.Stream, classes: tuple[str, ...], document: shape.Document
) -> Stream:
    stream = Stream(
        name,
        talker=its.talker,
        listeners=tuple(its.listeners),
        traffic_classes=classes,
        period_ns=its.period_ns,
        payload_octets=its.payload_octets,
        max_latency_ns=its.max_latency_ns,
        earliest_ns=its.window.earliest_ns if its.window else 0,
        latest_ns=its.window.latest_ns if its.window else None,
        ip_version=its.ip,
        paths=its.paths,
        destination_mac=its.destination_mac,
        vlan_id=its.vlan,
        max_jitter_ns=its.max_jitter_ns,
        frames=its.frames,
        windows=_windows(its, classes, document),
        routes=its.route or (),
        ethertype=its.ethertype,
    )
    for each in KEYS:
        stream = each.of_stream(stream, its, document)
    return stream


def _frames(its: shape.Class) -> Windows | None:
    """How frames of its streams leave, if a class states that."""
    return its.windows.frames if its.windows else None


def _windows(its: shape.Stream, names: tuple[str, ...], document: shape.Document) -> Windows:
    """What the nearest states: a stream, its classes where all agree, the network.

    Frames of a shared window leave in any order, so a limit of their jitter asks for exact ones.
    """
    of_all = document.defaults.windows
    known = [document.classes[name] for name in names if name in document.classes]
    of_classes = {_frames(each) or of_all for each in known}
    of_class = of_classes.pop() if len(of_classes) == 1 else of_all
    windows = its.windows or of_class
    if windows is Windows.AUTO and its.max_jitter_ns is not None:
        return Windows.EXACT
    return windows


def _check_control(its: TrafficClass, problems: Problems) -> None:
    """Only what control sends is not planned, and has to be stated."""
    if its.role is ClassRole.CONTROL:
        return
    for key, value in (("burst", its.burst_frames), ("rate", its.rate_bps)):
        if value is not None:
            found = f"a {key}, and the role {its.role}"
            problems.add(("classes", its.name, key), found, "a class with the role control")


def _check_best_effort(its: TrafficClass, problems: Problems) -> None:
    """Only best effort is promised a share of what the others leave."""
    if its.min_share_ppb is not None and its.role is not ClassRole.BEST_EFFORT:
        found = f"a min-share, and the role {its.role}"
        problems.add(("classes", its.name, "min-share"), found, "a class with the role best-effort")


def _check_class_windows(document: shape.Document, problems: Problems) -> None:
    """Only frames of scheduled classes have windows."""
    for name, its in document.classes.items():
        if its.windows and its.role is not ClassRole.SCHEDULED:
            found = f"{_frames(its) or 'a share'}, and the role {its.role}"
            expected = "a class with the role scheduled: only its frames have windows"
            problems.add(("classes", name, "windows"), found, expected)
        if its.reserve_ppb is None:
            continue
        if its.shaping is not None and its.shaping.shaper:
            continue
        if its.role is not ClassRole.SCHEDULED:
            found = f"a reserve, and the role {its.role}"
            expected = (
                "a class with the role scheduled, whose frames share windows, or with shaping"
            )
            problems.add(("classes", name, "reserve"), found, expected)
        elif (_frames(its) or document.defaults.windows) is Windows.EXACT:
            found = "a reserve, and windows: exact"
            expected = "windows: shared or auto: a window of one frame has room for no other"
            problems.add(("classes", name, "reserve"), found, expected)


def _check_classes(intent: Intent, problems: Problems) -> None:
    owners: dict[tuple[str, int], str] = {}
    for name, its in intent.classes.items():
        marks = [("priority", its.priority), *(("dscp", dscp) for dscp in its.dscps)]
        for key, value in [("traffic-class", its.number), *marks]:
            owner = owners.get((key, value))
            owners[key, value] = name
            if owner:
                found = f"{value}, which class {owner} has" if owner != name else f"{value} twice"
                problems.add(("classes", name, key), found, f"a {key} of its own")
        _check_control(its, problems)
        _check_best_effort(its, problems)
        if its.role is not ClassRole.SCHEDULED:
            continue
        for key, value in marks:
            if value == 0:
                problems.add(
                    ("classes", name, key),
                    "0, which every unmarked frame has",
                    "another value for a scheduled class",
                )
        if not its.dscps and intent.network.forwarding is Forwarding.ROUTED:
            problems.add(
                ("classes", name),
                "a scheduled class without dscp",
                "at least one DSCP, which identifies its frames",
            )
    if not intent.unreserved_classes():
        problems.add(
            ("classes",),
            "no class with the role best-effort",
            "one, for all traffic that no other class names",
        )
