"""What drivers say of their ports, asked through ethtool: unlike sysfs it follows the namespace."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import GenericNetlinkSocket
from pyroute2.ethtool.ioctl import EthtoolError, IoctlEthtool
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic.ethtool import ETHTOOL_GENL_NAME

from agent.kernel import ethtool_mm
from agent.model import MacMerge

BPS_PER_MBPS = 1_000_000
SPEED_UNKNOWN_MBPS = 0xFFFF_FFFF  # SPEED_UNKNOWN of linux/ethtool.h, read as unsigned
ETHTOOL_GDRVINFO, ETHTOOL_GFLAGS = 0x3, 0x25
ETH_FLAG_RXVLAN = 1 << 8
ETHTOOL_GET_TS_INFO = 0x41
# linux/net_tstamp.h: SOF_TIMESTAMPING_*, and the bit of HWTSTAMP_TX_ON
STAMPS_IN_HARDWARE = 1 << 0 | 1 << 2 | 1 << 6  # of what is sent and received, as the clock has it
STAMPS_IN_SOFTWARE = 1 << 1 | 1 << 3 | 1 << 4
HARDWARE_STAMPS_ON = 1 << 1
DSA = "dsa"  # dsa_user_get_drvinfo of net/dsa/user.c


def device_driver(name: str, interfaces: Path = Path("/sys/class/net")) -> str | None:
    """The driver that the device of an interface is bound to; None where /sys does not show it."""
    bound = interfaces / name / "device" / "driver"
    return bound.resolve().name if bound.exists() else None


class _DriverInfo(ctypes.Structure):
    """struct ethtool_drvinfo; only the name matters here."""

    _fields_ = (
        ("cmd", ctypes.c_uint32),
        ("driver", ctypes.c_char * 32),
        ("others", ctypes.c_char * 160),
    )


class _Flags(ctypes.Structure):
    """struct ethtool_value."""

    _fields_ = (("cmd", ctypes.c_uint32), ("data", ctypes.c_uint32))


class _TimeStampingInfo(ctypes.Structure):
    """struct ethtool_ts_info."""

    _fields_ = (
        ("cmd", ctypes.c_uint32),
        ("so_timestamping", ctypes.c_uint32),
        ("phc_index", ctypes.c_int32),
        ("tx_types", ctypes.c_uint32),
        ("tx_reserved", ctypes.c_uint32 * 3),
        ("rx_filters", ctypes.c_uint32),
        ("rx_reserved", ctypes.c_uint32 * 3),
    )


@dataclass(frozen=True, slots=True)
class TimeStampingAbility:
    """Where a port can take time stamps: `hardware_clock` is the number of its PTP hardware clock
    (/dev/ptpN), None where its hardware has no stamps of sent and received frames."""

    in_software: bool = False
    hardware_clock: int | None = None


class Ethtool:
    """Asks by ioctl what one port alone can answer: a hundredth of what generic netlink takes."""

    def __init__(self) -> None:
        self._ioctl = IoctlEthtool()
        self._netlink = GenericNetlinkSocket()
        self._bound = False

    def speed_bps(self, name: str) -> int | None:
        """Bits per second; None when the link is down or the driver does not say."""
        command = self._ask(name, self._ioctl.get_cmd)
        speed_mbps = command.speed_hi << 16 | command.speed if command else 0
        return speed_mbps * BPS_PER_MBPS if speed_mbps not in (0, SPEED_UNKNOWN_MBPS) else None

    def driver(self, name: str) -> str | None:
        """The driver as `ethtool -i` names it ("veth"); that of the device for a port of a DSA
        switch, which has "dsa" whatever the switch."""
        info = _DriverInfo(cmd=ETHTOOL_GDRVINFO)

        def ask() -> str:
            self._ioctl.ifreq.gstrings = ctypes.addressof(info)
            self._ioctl.ioctl()
            return str(info.driver, "ascii", "replace")

        driver = self._ask(name, ask) or None
        return driver if driver != DSA else device_driver(name) or driver

    def takes_vlan_tags_off(self, name: str) -> bool:
        """Whether the driver takes the VLAN tag out of received frames and hands it over beside
        them (`ethtool -k`: rx-vlan-offload)."""
        flags = _Flags(cmd=ETHTOOL_GFLAGS)

        def ask() -> bool:
            self._ioctl.ifreq.gstrings = ctypes.addressof(flags)
            self._ioctl.ioctl()
            return bool(flags.data & ETH_FLAG_RXVLAN)

        return bool(self._ask(name, ask))

    def time_stamping(self, name: str) -> TimeStampingAbility:
        """What `ethtool -T` shows of the port."""
        info = _TimeStampingInfo(cmd=ETHTOOL_GET_TS_INFO)

        def ask() -> TimeStampingAbility:
            self._ioctl.ifreq.gstrings = ctypes.addressof(info)
            self._ioctl.ioctl()
            has = info.so_timestamping
            in_hardware = (
                has & STAMPS_IN_HARDWARE == STAMPS_IN_HARDWARE
                and info.tx_types & HARDWARE_STAMPS_ON
                and info.phc_index >= 0
            )
            return TimeStampingAbility(
                in_software=has & STAMPS_IN_SOFTWARE == STAMPS_IN_SOFTWARE,
                hardware_clock=info.phc_index if in_hardware else None,
            )

        return self._ask(name, ask) or TimeStampingAbility()

    def _ask(self, name: str, question: Callable[[], Any]) -> Any:
        """None where the driver has no answer, or the interface went away."""
        try:
            self._ioctl.change_ifname(name)
            return question()
        except (EthtoolError, OSError):
            return None

    def mac_merges(self) -> dict[int, MacMerge]:
        """By index of the interface what drivers say of MAC merge layers (IEEE 802.3 clause 99).

        One dump for all; the kernel leaves the others out (ethtool/netlink.c). Empty on kernels
        that cannot tell.
        """
        try:
            if not self._bound:
                self._netlink.bind(ETHTOOL_GENL_NAME, ethtool_mm.mac_merge_msg)
                self._bound = True
            replies = self._netlink.nlm_request(
                ethtool_mm.request(),
                msg_type=self._netlink.prid,
                msg_flags=NLM_F_REQUEST | NLM_F_DUMP,
            )
            return dict(map(ethtool_mm.reply, replies))
        except NetlinkError:
            return {}

    def close(self) -> None:
        self._ioctl.close()
        self._netlink.close()
