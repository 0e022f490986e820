"""Device profiles in an intent: an operator's own files, and what a switch cannot be asked.

What a profile states of gates holds for each port of the switch, so that a plan keeps to it; what
the switch lacks is refused where the intent asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cnc.keys import shape
from cnc.keys.problems import Problems
from cnc.keys.profile import ProfileKeys
from cnc.model import FIXED_CLASSES, Forwarding, GateLimits, GateMode, Link, Profile

_OWN_FILES = (".yaml", ".yml")


def with_own_profiles(
    problems: Problems, intent: Path, read: Callable[[Path], Problems], check: Callable[..., object]
) -> Problems:
    """A document that stands on its own: with what the profiles beside the file `intent` state.

    Raises InputError with one line for each problem of such a file.
    """
    switches = problems.document.get("switches") if isinstance(problems.document, dict) else None
    for its in switches.values() if isinstance(switches, dict) else ():
        file = its.get("profile") if isinstance(its, dict) else None
        if isinstance(file, str) and file.endswith(_OWN_FILES):
            found = read(intent.parent / file)
            if isinstance(found.document, dict):
                found.document.setdefault("name", Path(file).stem)
            check(found, ProfileKeys)
            its["profile"] = found.document
    return problems


def profile_of(its: shape.Switch) -> Profile | None:
    """The profile of a switch with the numbers of its ports that the intent states."""
    if its.profile is None:
        return None
    numbers = {name: port.number for name, port in its.ports.items() if port.number}
    return replace(its.profile.value(), port_numbers=tuple(sorted(numbers.items())))


def within_profile(link: Link, its: Profile) -> Link:
    """The link with the tighter of its own limits and those of its switch."""
    longest = (its.entries_max, its.interval_max_ns, its.cycle_max_ns)
    return link.within(GateLimits(*longest, its.tick_ns, its.interval_min_ns))


def check_profiles(document: shape.Document, problems: Problems) -> None:
    """Add to the problems what an intent asks of switches that their profiles do not have."""
    for name, its in document.switches.items():
        for port, keys in its.ports.items():
            if keys.number and not its.profile:
                path = ("switches", name, "ports", port, "number")
                expected = "no such key without a profile: an agent reports it"
                problems.add(path, str(keys.number), expected)
        if its.profile:
            _check(name, its, its.profile.value(), document, problems)


def _check(
    name: str, its: shape.Switch, profile: Profile, document: shape.Document, problems: Problems
) -> None:
    path, called = ("switches", name, "profile"), profile.name
    if its.management is None:
        found = f"{called}, and no management"
        problems.add(path, found, "management: ADDRESS beside it, or no profile")
    if its.gates not in {None, GateMode.FULL_OFFLOAD}:
        found = f"{its.gates}, and a profile"
        problems.add(("switches", name, "gates"), found, "no such key: its ports run their lists")
    if document.forwarding is Forwarding.ROUTED:
        found = f"{called}, and forwarding: routed"
        expected = "forwarding: bridged: the switch gives frames their class by PCP, not by DSCP"
        problems.add(path, found, expected)
    elif document.streams and not profile.forwards:
        found = f"{called}, which takes no filtering entries, and streams"
        problems.add(path, found, "a profile that states forwards: true")
    if not profile.sets_classes:
        for label, each in document.classes.items():
            if (fixed := FIXED_CLASSES[each.priority]) != each.traffic_class:
                found = f"{each.traffic_class}, and switch {name} with the profile {called}"
                expected = f"{fixed}, which that switch gives priority {each.priority}"
                problems.add(("classes", label, "traffic-class"), found, expected)
