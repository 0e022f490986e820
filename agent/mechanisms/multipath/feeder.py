"""What decisions are made from, as the machine shows it. What it does not have is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyroute2 import IW, IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.mechanisms.multipath.decisions.radio import Radio

THERMAL = Path("/sys/class/thermal")
CGROUPS = Path("/sys/fs/cgroup")


def octets(ipr: IPRoute, ifindex: int) -> int | None:
    """Sent and received by an interface since it is there."""
    try:
        (link,) = ipr.get_links(ifindex)
    except NetlinkError:
        return None
    counted = link.get_attr("IFLA_STATS64")
    return counted["rx_bytes"] + counted["tx_bytes"] if counted else None


class Wireless:
    """Radio links of the network namespace in which it is made (nl80211)."""

    def __init__(self) -> None:
        self._iw: IW | None = None
        with suppress(NetlinkError, OSError):  # without cfg80211 there is no such family
            self._iw = IW()

    def radio(self, ifindex: int) -> Radio:
        """What the driver says of the peer of this interface; nothing where it is no radio link."""
        if self._iw is None:
            return Radio()
        try:
            return radio(list(self._iw.get_stations(ifindex)))
        except NetlinkError:
            return Radio()

    def close(self) -> None:
        if self._iw:
            self._iw.close()


# The technology of which the rate has such an attribute; several can be there, the newest counts.
_TECHNOLOGIES = {"eht": "EHT_MCS", "he": "HE_MCS", "vht": "VHT_MCS", "ht": "MCS"}
_BITRATE_BPS = 100_000  # the unit of rates in nl80211


def radio(stations: list[Any]) -> Radio:
    """By the only peer; of several, as an access point has them, none speaks for the link."""
    if len(stations) != 1:
        return Radio()
    info = stations[0].get_attr("NL80211_ATTR_STA_INFO")
    rate = info.get_attr("NL80211_STA_INFO_TX_BITRATE") if info else None
    if rate is None:
        return Radio(signal_dbm=info.get_attr("NL80211_STA_INFO_SIGNAL") if info else None)

    def of_rate(name: str) -> Any:
        return rate.get_attr(f"NL80211_RATE_INFO_{name}")

    named = (name for name, mcs in _TECHNOLOGIES.items() if of_rate(mcs) is not None)
    bitrate = of_rate("BITRATE32") or of_rate("BITRATE")
    return Radio(
        next(named, "legacy"),
        info.get_attr("NL80211_STA_INFO_SIGNAL"),
        bitrate * _BITRATE_BPS if bitrate else None,
    )


def millicelsius(zone: str, directory: Path = THERMAL) -> int | None:
    """The hottest thermal zone of this type."""
    found = []
    for each in directory.glob("thermal_zone*"):
        with suppress(OSError, ValueError):
            if (each / "type").read_text(encoding="utf-8").strip() == zone:
                found.append(int((each / "temp").read_text(encoding="ascii")))
    return max(found, default=None)


def cgroup_ids(paths: Iterable[str], directory: Path = CGROUPS) -> dict[int, str]:
    """The control groups that exist, by the id that sockets have of them."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[(directory / path.strip("/")).stat().st_ino] = path
    return found
