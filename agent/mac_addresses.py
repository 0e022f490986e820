"""MAC addresses as the standard modules write them: 02-00-00-00-00-0A."""

from __future__ import annotations

# IEEE Std 802.1Q-2022, table 8-1: a bridge does not forward these.
_RESERVED = "01-80-C2-00-00-0"
_PTP = "01-1B-19-00-00-00"  # IEEE Std 1588-2019, annex E
_BROADCAST, _NO_ADDRESS = "FF-FF-FF-FF-FF-FF", "00-00-00-00-00-00"


def is_group(mac: str) -> bool:
    """Whether the individual/group bit says group: several stations may listen."""
    return bool(int(mac[:2], 16) & 1)


def problem_of_destination(mac: str) -> str | None:
    """Why no stream can have this destination; None if one can."""
    if mac.startswith(_RESERVED):
        return (
            f"{mac} is reserved (IEEE Std 802.1Q-2022, table 8-1): no bridge forwards it; "
            "choose another address"
        )
    if mac == _PTP:
        return f"{mac} is the group of PTP (IEEE Std 1588-2019, annex E); choose another address"
    if mac in {_BROADCAST, _NO_ADDRESS}:
        return f"{mac} is the address of no station and of no group; choose another address"
    return None


def octets(mac: str) -> bytes:
    """The six octets of an address."""
    return bytes.fromhex(mac.replace("-", ""))


def text(mac: bytes) -> str:
    """The address in upper case, with hyphens."""
    return mac.hex("-").upper()
