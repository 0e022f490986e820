"""The tables of ieee802-dot1cb-frer, as far as they name a port → what it is asked to do. Pure.

What the tree offers and the deviations of tsn-linux-unsupported leave out never gets here; what
depends on several leaves is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent.mechanism import FRER, STREAM_IDENTITY, Refused, Tree
from agent.mechanisms.frer.model import (
    MATCH,
    VECTOR,
    Address,
    FrerConfig,
    Generated,
    LatentErrorDetection,
    Recovered,
    Recovery,
)
from agent.model import PortState
from agent.stream_identities import input_ports, named_frames

GENERATION, RECOVERY, SEQUENCE_IDENTIFICATION = (
    f"sequence-{table}" for table in ("generation", "recovery", "identification")
)
_DEFAULT_HISTORY_LENGTH = 2
_DETECTION, _PARAMETERS = "latent-error-detection", "latent-error-detection-parameters"
_DEFAULT_PERIODS_MS = {"period": 2_000, "reset-period": 30_000}
_PATHS_MIN = 2


def configured(interface: Tree, _state: PortState | None) -> FrerConfig:
    """What the tables ask of this port; raises `Refused`, naming the entry."""
    node: Tree = interface.get(FRER, {})
    if not node:
        return FrerConfig()
    addresses = _addresses(interface)
    encoded = _handles(node, interface["name"], out_facing=False)
    decoded = _handles(node, interface["name"], out_facing=True)
    for handle in sorted(encoded & decoded):
        raise Refused(
            f"{SEQUENCE_IDENTIFICATION}: stream {handle} gets its R-TAG here and loses it here; "
            "name it in-facing at the port of its talker, out-facing where copies come in"
        )
    return FrerConfig(
        frozenset(_generated(node, encoded, addresses)),
        frozenset(_recovered(node, interface["name"], decoded, addresses)),
    )


def _addresses(interface: Tree) -> dict[int, Address]:
    """By what the frames of streams are known that come in by a port with a VLAN tag.

    The datastore refuses tables that refer to others. But a commit that changes two of its modules
    is announced one module after the other: for a moment a stream may be missing here.
    """
    return {
        entry["handle"]: Address(*frames)
        for entry in interface.get(STREAM_IDENTITY, [])
        if interface["name"] in input_ports(entry) and (frames := named_frames(entry))
    }


def _handles(node: Tree, port: str, *, out_facing: bool) -> frozenset[int]:
    """The streams with an R-TAG at one side of the port."""
    for entry in node.get(SEQUENCE_IDENTIFICATION, []):
        if _given(entry, "direction-out-facing", f"{SEQUENCE_IDENTIFICATION} of {port}") is (
            out_facing
        ):
            _refuse_encapsulation(entry, f"{SEQUENCE_IDENTIFICATION} of {port}")
            return frozenset(entry["stream"])
    return frozenset()


def _refuse_encapsulation(entry: Tree, name: str) -> None:
    if "r-tag" not in entry.get("encapsulation", {}):
        raise Refused(f"{name}: encapsulation has no r-tag, which is the only one there is here")
    if not entry.get("active"):
        raise Refused(
            f"{name}: active is not true: the port would neither add R-TAGs nor take them off"
        )


def _generated(
    node: Tree, encoded: frozenset[int], addresses: Mapping[int, Address]
) -> Iterator[Generated]:
    entries = list(node.get(GENERATION, []))
    found = _entry_by_handle(entries, encoded, GENERATION)
    for entry in entries:
        name = f"{GENERATION} {entry['index']}"
        if _given(entry, "direction-out-facing", name):
            raise Refused(
                f"{name}: direction-out-facing is true, but frames get their numbers on their way "
                "from the talker to the relay; set it false"
            )
        for handle in entry["stream"]:
            if handle not in encoded:
                raise Refused(
                    f"{name}: no in-facing {SEQUENCE_IDENTIFICATION} of this port says how the "
                    f"numbers of stream {handle} are written; add one with r-tag"
                )
    for handle in sorted(encoded):
        if handle not in found:
            raise Refused(
                f"{SEQUENCE_IDENTIFICATION}: no {GENERATION} gives frames of stream {handle} the "
                "numbers that are written here; add one"
            )
        entry = found[handle]
        if handle in addresses:
            yield Generated(handle, addresses[handle], entry["index"], bool(entry.get("reset")))


def _recovered(
    node: Tree, port: str, decoded: frozenset[int], addresses: Mapping[int, Address]
) -> Iterator[Recovered]:
    entries = [each for each in node.get(RECOVERY, []) if port in each["port"]]
    for entry in entries:
        name = f"{RECOVERY} {entry['index']}"
        if not _given(entry, "direction-out-facing", name):
            raise Refused(
                f"{name}: direction-out-facing is false, but copies are eliminated at ingress of "
                "the port; set it true"
            )
        for handle in sorted(set(entry["stream"]) - decoded):
            raise Refused(
                f"{name}: no out-facing {SEQUENCE_IDENTIFICATION} of {port} reads the numbers of "
                f"stream {handle}; add one with r-tag"
            )
    individual, combined = (
        _entry_by_handle(
            [each for each in entries if bool(each.get("individual-recovery")) is is_individual],
            decoded,
            RECOVERY,
        )
        for is_individual in (True, False)
    )
    for handle in sorted(decoded):
        if not {handle} & (combined.keys() | individual.keys()):
            raise Refused(
                f"{SEQUENCE_IDENTIFICATION} of {port}: no {RECOVERY} eliminates copies of stream "
                f"{handle} there; add one"
            )
        functions = [
            _recovery(table[handle]) if handle in table else None
            for table in (combined, individual)
        ]
        if handle in addresses:
            yield Recovered(handle, addresses[handle], *functions)


def _entry_by_handle(
    entries: Iterable[Tree], handles: frozenset[int], table: str
) -> Mapping[int, Tree]:
    found: dict[int, Tree] = {}
    for entry in entries:
        for handle in handles & set(entry["stream"]):
            if handle in found:
                raise Refused(
                    f"{table} {entry['index']}: entry {found[handle]['index']} has stream {handle} "
                    "already; remove one"
                )
            found[handle] = entry
    return found


def _recovery(entry: Tree) -> Recovery:
    name = f"{RECOVERY} {entry['index']}"
    algorithms: Sequence[str] = [
        each for each in (VECTOR, MATCH) if each in entry.get("algorithm", {})
    ]
    algorithm = algorithms[0] if algorithms else VECTOR
    if algorithm == MATCH and "history-length" in entry:
        raise Refused(f"{name}: history-length has no effect on the algorithm {MATCH}; remove it")
    timeout_ms = entry.get("reset-timeout", 0)
    if not timeout_ms:
        raise Refused(
            f"{name}: no reset-timeout: all frames of a switch that has started again, and numbers "
            "from 0, would be discarded; give one in milliseconds"
        )
    detection = _detection(entry, name)
    return Recovery(
        entry=entry["index"],
        algorithm=algorithm,
        history_length=(
            0 if algorithm == MATCH else entry.get("history-length", _DEFAULT_HISTORY_LENGTH)
        ),
        reset_timeout_ms=timeout_ms,
        take_no_sequence=bool(entry.get("take-no-sequence")),
        reset=bool(entry.get("reset")),
        latent_errors=detection,
    )


def _detection(entry: Tree, name: str) -> LatentErrorDetection | None:
    """Raises `Refused` for what would never find an error, or would find one in each reset."""
    parameters: Tree = entry.get(_PARAMETERS, {})
    if not entry.get(_DETECTION):
        if parameters:
            raise Refused(
                f"{name}: {_PARAMETERS} have no effect without {_DETECTION}; set it true, or "
                "remove them"
            )
        return None
    if entry.get("individual-recovery"):
        raise Refused(
            f"{name}: {_DETECTION} has no effect on individual recovery, which has copies of one "
            "path alone; set it at the entry without individual-recovery"
        )
    for leaf in ("difference", "paths"):
        if leaf not in parameters:
            raise Refused(f"{name}: {_DETECTION} without {_PARAMETERS}/{leaf}")
    if parameters["difference"] < 0:
        raise Refused(f"{name}: a difference of {parameters['difference']} copies is below 0")
    if parameters["paths"] < _PATHS_MIN:
        raise Refused(
            f"{name}: {_DETECTION} compares the copies of {_PATHS_MIN} paths at least, not of "
            f"{parameters['paths']}"
        )
    period_ms, reset_period_ms = (
        parameters.get(leaf, default) for leaf, default in _DEFAULT_PERIODS_MS.items()
    )
    if not period_ms:
        raise Refused(f"{name}: a period of 0 ms; give one in milliseconds")
    if reset_period_ms <= period_ms:
        raise Refused(
            f"{name}: the counts of copies are reset each {reset_period_ms} ms (reset-period), "
            f"before they are compared, each {period_ms} ms (period); lengthen reset-period"
        )
    return LatentErrorDetection(
        parameters["difference"], period_ms, parameters["paths"], reset_period_ms
    )


def _given(entry: Tree, leaf: str, name: str) -> bool:
    """A leaf that the standard does not require, but what it does here."""
    if leaf not in entry:
        raise Refused(f"{name}: no {leaf}")
    return bool(entry[leaf])
