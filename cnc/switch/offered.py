"""What a NETCONF server says in its hello (RFC 6241 8.1), and what a rollout needs of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from cnc.model import CommitStyle, GateTree, Profile

CAPABILITY = "urn:ietf:params:netconf:capability:"
# RFC 6241 8.3, 8.4, 8.6, 8.7; in these versions, since 1.0 has neither <persist> nor test-only.
_OF_OURS = ("candidate:1.0", "confirmed-commit:1.1", "validate:1.1", "startup:1.0")
_BY_STYLE = {
    CommitStyle.CONFIRMED: ("candidate:1.0", "confirmed-commit:1.1"),
    CommitStyle.CANDIDATE: ("candidate:1.0",),
    CommitStyle.RUNNING: ("writable-running:1.0",),
}
# The modules that an edit-config of a rollout uses, and the features it needs.
_MODULES_OF_OURS: Mapping[str, frozenset[str]] = {
    "ietf-interfaces": frozenset(),
    "iana-if-type": frozenset(),
    "ieee802-dot1q-bridge": frozenset(),
    "ieee802-dot1q-sched": frozenset({"scheduled-traffic"}),
    "ieee802-dot1q-sched-bridge": frozenset(),
    "tsn-linux": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Module:
    """A YANG module as a hello has it (RFC 6020 5.6.4)."""

    revision: str
    features: frozenset[str]
    deviations: tuple[str, ...]


def modules_in(capabilities: Iterable[str]) -> dict[str, Module]:
    """The modules that a hello names, by name; servers with a YANG library may name none."""
    found = {}
    for uri in capabilities:
        query = parse_qs(uri.partition("?")[2])
        if name := query.get("module"):
            features, deviations = (
                [each for each in ",".join(query.get(key, ())).split(",") if each]
                for key in ("features", "deviations")
            )
            revision = query.get("revision", [""])[0]
            found[name[0]] = Module(revision, frozenset(features), tuple(deviations))
    return found


def commit_styles(capabilities: Collection[str]) -> Iterator[CommitStyle]:
    """How such a server takes changes, the safest way first."""
    for style, needed in _BY_STYLE.items():
        if all(f"{CAPABILITY}{each}" in capabilities for each in needed):
            yield style


def needed_capabilities(profile: Profile | None) -> tuple[str, ...]:
    """What a rollout to a switch needs, without the prefix CAPABILITY."""
    if profile is None:
        return _OF_OURS
    return (*_BY_STYLE[profile.commit], *(("startup:1.0",) if profile.has_startup else ()))


def needed_modules(profile: Profile | None) -> Mapping[str, frozenset[str]]:
    """The modules that a rollout to a switch writes, with the features that it needs of them."""
    if profile is None:
        return _MODULES_OF_OURS
    names = ["ietf-interfaces", profile.gates]
    if profile.gates is GateTree.BRIDGE_PORT or profile.forwards or profile.sets_classes:
        names.append("ieee802-dot1q-bridge")
    return dict.fromkeys(names, frozenset())
