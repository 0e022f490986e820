"""From the interfaces that a CUC names to the end stations of the intent."""

from __future__ import annotations

from cnc.model import Intent
from cnc.service.uni.asked import Asked, End
from cnc.service.uni.ground import ground
from cnc.service.uni.refused import Failure, Refused


def ends(asked: Asked, intent: Intent) -> tuple[str, tuple[str, ...]]:
    """The talker and the listeners by the names that they have in the intent. Raises Refused."""
    talker = station_of(asked.talker, "talker", intent)
    listeners = tuple(
        station_of(each, f"listener {each.index}", intent) for each in asked.listeners
    )
    for index, listener in enumerate(listeners):
        if listener == talker:
            raise Refused(
                Failure.FEATURE,
                f"{talker} is the talker of the stream, and a listener",
                "leave it out of the listeners",
            )
        if listener in listeners[:index]:
            raise Refused(
                Failure.FEATURE,
                f"{listener} is a listener of the stream twice",
                "write each end station once, with all its interfaces",
            )
    return talker, listeners


def station_of(end: End, role: str, intent: Intent) -> str:
    """The end station that an end names. Raises Refused for an address that the intent does not
    have, for one end that is two stations, and for ports that the plan would not keep to."""
    its = ground(intent.network)
    by_mac = its.by_mac
    found = {by_mac[each.mac] for each in end.interfaces if each.mac in by_mac}
    if not found:
        mac = end.interfaces[0].mac
        raise Refused(
            Failure.NO_PORT,
            f"{role}: the intent {intent.name} has no end station with the MAC address {mac}",
            f"write `mac: {mac}` of the end station under `end-stations` of the intent file",
        )
    if len(found) > 1:
        raise Refused(
            Failure.FEATURE,
            f"{role}: its interfaces are those of {' and '.join(sorted(found))}",
            "write one end station",
        )
    station = found.pop()
    ports = {link.source.port for link in its.leaving[station]}
    named = {each.name for each in end.interfaces if each.name}
    if len(ports) > 1 and named != ports:
        raise Refused(
            Failure.FEATURE,
            f"{role}: {station} has the ports {', '.join(sorted(ports))}, and the plan chooses "
            "among all of them",
            "write an interface for each, with the interface-name that the intent file has",
        )
    unknown = sorted({each.mac for each in end.interfaces if by_mac.get(each.mac) != station})
    if unknown and len(end.interfaces) > len(ports):
        raise Refused(
            Failure.NO_PORT,
            f"{role}: {unknown[0]} is no MAC address of a port of {station}",
            "write the interfaces that the end station has in the intent file",
        )
    return station
