"""What a switch says of the hardware of its ports, and that in words."""

from __future__ import annotations

from dataclasses import dataclass

from cnc.model import GateLimits
from cnc.support.format import gate_limits

_TAKEN = ("gates", "filters", "police", "stream-gates")  # in the order of tsn-linux


@dataclass(frozen=True, slots=True)
class Offload:
    """What a driver hands to the hardware of its port, by its source; `takes` are names of
    tsn-linux. `drops_long_frames`: each that is longer than the shortest opening of its class."""

    source: tuple[str, ...]
    takes: frozenset[str]
    limits: GateLimits
    drops_long_frames: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareReport:
    """What a switch says of the hardware of a port; `driver` is None where it has none, `offload`
    where nothing is known of it, `stamps` and `forwards` where an older agent does not say."""

    driver: str | None
    has_mac_merge: bool = False
    stamps: bool | None = None
    forwards: bool | None = None
    offload: Offload | None = None


def described(its: HardwareReport) -> list[str]:
    """The driver, what it takes, within which limits, and where that is read, in parts."""
    if its.driver is None:
        taken = ["no driver"]
    elif its.offload is None:
        taken = [f"driver {its.driver}: what it offloads is not known"]
    elif its.offload.takes:
        words = [
            f"gates ({gate_limits(its.offload.limits)})" if each == "gates" else each
            for each in _TAKEN
            if each in its.offload.takes
        ]
        taken = [f"driver {its.driver} takes {', '.join(words)}"]
    else:
        taken = [f"driver {its.driver} takes neither gates nor filters"]
    taken += ["MAC merge"] if its.has_mac_merge else []
    if its.stamps is not None:
        taken.append("hardware stamps" if its.stamps else "no hardware stamps")
    if its.offload:
        taken += ["drops frames longer than the shortest gate"] * its.offload.drops_long_frames
        taken += its.offload.notes
        taken.append(f"by {' and '.join(its.offload.source)}")
    return taken
