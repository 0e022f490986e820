"""Streams as they are asked for (IEEE 802.1Qcc-2018 clause 46.2.3), and their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAC_OCTETS = 6


class NextProtocol(StrEnum):
    """What an IP packet carries, as far as its stream is known by it (802.1CB 9.1.5.7)."""

    NONE = "none"  # anything: ports do not matter
    UDP = "udp"
    TCP = "tcp"


@dataclass(frozen=True, slots=True)
class IpIdentification:
    """Untagged IP packets (802.1CB 6.7: IP stream identification). What is None matches anything.

    Addresses are text in the shortest form, both of one version. `protocol` is not NONE where a
    port is given.
    """

    destination: str
    source: str | None = None
    protocol: NextProtocol = NextProtocol.NONE
    source_port: int | None = None
    destination_port: int | None = None
    dscp: int | None = None

    def __str__(self) -> str:
        source = f"from {self.source} " if self.source else ""
        marks = [f"IP {source}to {self.destination}"]
        if self.protocol is not NextProtocol.NONE:
            marks.append(self.protocol.upper())
        if self.source_port is not None:
            marks.append(f"from port {self.source_port}")
        if self.destination_port is not None:
            marks.append(f"to port {self.destination_port}")
        if self.dscp is not None:
            marks.append(f"DSCP {self.dscp}")
        return ", ".join(marks)


@dataclass(frozen=True, slots=True)
class SourceMacIdentification:
    """All untagged frames of one station (802.1CB 6.5: source MAC and VLAN identification)."""

    source_mac: str

    def __str__(self) -> str:
        return f"untagged frames from {self.source_mac}"


@dataclass(frozen=True, slots=True)
class NullIdentification:
    """All untagged frames to one address (802.1CB 6.4: null stream identification)."""

    destination_mac: str

    def __str__(self) -> str:
        return f"untagged frames to {self.destination_mac}"


Identification = IpIdentification | SourceMacIdentification | NullIdentification


class Elimination(StrEnum):
    """Who takes out the second copies of the frames of a stream with two paths."""

    LISTENER = "listener"  # both copies come to it
    SWITCH = "switch"  # the last switch on the way to each listener


class Windows(StrEnum):
    """How the frames of a stream leave by a port: see `cnc.model.plan.Hop`."""

    EXACT = "exact"  # each at an instant of its own
    SHARED = "shared"  # in a window with frames of other streams, in any order
    AUTO = "auto"  # exact where the plan has room for it, shared elsewhere


@dataclass(frozen=True, slots=True)
class Stream:
    """Periodic frames from one talker to its listeners (802.1Qcc TSpec and requirements).

    `payload_octets` is the MAC client data of one frame: an IP packet of `ip_version` with its
    headers; where `ethertype` is not None, what else that stands for. In each period the talker
    sends up to `frames` of them back to back (802.1Qcc 46.2.3.5: MaxFramesPerInterval).
    `max_latency_ns` runs from the planned start of transmission at the talker to the last bit of
    the last frame at the last listener. The talker may start between `earliest_ns` and `latest_ns`
    of each period.
    A plan chooses one of `traffic_classes` for the whole way, since a frame's DSCP names it.
    With two `paths` each frame is sent twice, over trees that share no link between bridges, for
    the listener to keep the first copy (IEEE 802.1CB); the latency of both counts from the first.
    Where `elimination` is by switches, the last one on the way keeps it, and the listener gets one.
    `destination_mac` and `vlan_id` are what the operator states of its address where forwarding is
    bridged; None: the plan assigns it. `identification` tells its frames from others of a talker
    that sends them untagged: the first switch gives them their address, VLAN and PCP, the last one
    takes them away again. None: the talker does so itself.
    `max_jitter_ns` bounds how much the arrival of the last bit may vary at each listener against
    the period, by whichever path the frame comes; None: it need not be bounded.
    `routes` are the switches that frames cross, from the talker's to the listener's: one route for
    each path where there are two, else for each listener; empty: the plan chooses them.
    `windows` is what holds for the stream, whether it is stated there, of its classes or of the
    network. It is never shared, nor left to the plan, where jitter is bounded.
    """

    name: str
    talker: str
    listeners: tuple[str, ...]
    traffic_classes: tuple[str, ...]
    period_ns: int
    payload_octets: int
    max_latency_ns: int
    earliest_ns: int = 0
    latest_ns: int | None = None  # None: any time of the period
    ip_version: int = 6
    paths: int = 1
    destination_mac: str | None = None
    vlan_id: int | None = None
    identification: Identification | None = None
    max_jitter_ns: int | None = None
    frames: int = 1
    elimination: Elimination = Elimination.LISTENER
    windows: Windows = Windows.AUTO
    routes: tuple[tuple[str, ...], ...] = ()
    ethertype: int | None = None

    @property
    def stated_address(self) -> StreamAddress | None:
        """The address that the operator states; None: the plan assigns it, or a part of it."""
        if self.destination_mac is None or self.vlan_id is None:
            return None
        return StreamAddress(self.destination_mac, self.vlan_id)


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """What a bridged network knows the frames of a stream by (802.1CB 6.4: null identification).

    `destination_mac` is written as six pairs of lower-case hexadecimal digits with colons. The PCP
    in the VLAN tag is the priority of the stream's class: streams of several classes may share an
    address, and one filtering entry with it.
    """

    destination_mac: str
    vlan_id: int

    def __str__(self) -> str:
        return f"{self.destination_mac} in VLAN {self.vlan_id}"

    @property
    def is_group(self) -> bool:
        """Whether frames to the address may leave by several ports (IEEE 802: the I/G bit)."""
        return bool(int(self.destination_mac[:2], 16) & 1)


@dataclass(frozen=True, slots=True)
class PriorityAddress(StreamAddress):
    """The frames of one priority to an address, which streams of other priorities may share."""

    priority: int

    @property
    def shared(self) -> StreamAddress:
        """The address of frames of all priorities."""
        return StreamAddress(self.destination_mac, self.vlan_id)


def mac_number(mac: str) -> int:
    """A MAC address, six pairs of hexadecimal digits with colons, as a number."""
    return int(mac.replace(":", ""), 16)


def mac_text(number: int) -> str:
    """The MAC address with a number, as six pairs of lower-case hexadecimal digits with colons."""
    return number.to_bytes(MAC_OCTETS, "big").hex(":")


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Destination addresses that a plan may assign: each of the MAC addresses, the first and the
    last included, in each of the VLANs."""

    first_mac: str
    last_mac: str
    vlan_ids: tuple[int, ...]

    @property
    def macs(self) -> range:
        """The MAC addresses as numbers."""
        return range(mac_number(self.first_mac), mac_number(self.last_mac) + 1)

    def __len__(self) -> int:
        return len(self.macs) * len(self.vlan_ids)


# Group addresses, since they do for one listener and for several, on one path or two. Local ones of
# the quadrant that IEEE 802c leaves to administrators (AAI: the second digit of a group address is
# 3), so that no vendor and no protocol has them; 54:53:4e is TSN in ASCII.
DEFAULT_ADDRESS_RANGE = AddressRange("03:54:53:4e:00:00", "03:54:53:4e:ff:ff", (10,))

# Individual addresses of the same quadrant (the second digit is 2) for streams that talkers send as
# untagged IP: a Linux bridge forwards an IP packet to a group address by its IP group alone.
DEFAULT_INDIVIDUAL_RANGE = AddressRange("02:54:53:4e:00:00", "02:54:53:4e:ff:ff", (10,))
