"""Messages of rtnetlink(7) as octets: their numbers, and the header of those of traffic control.

From linux/rtnetlink.h and linux/pkt_cls.h, of which only what the agent sends is here.
"""

from __future__ import annotations

import struct

RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 17, 18, 19
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
RTM_NEWACTION = 48
RTM_GETDCB, RTM_SETDCB = 78, 79
RTM_NEWMDB, RTM_DELMDB, RTM_GETMDB = 84, 85, 86

# struct ifinfomsg: family, type, index, flags, changed flags.
IFINFOMSG = struct.Struct("=BxHiII")
# struct tcmsg: family, index of the interface, handle, parent, info.
TCMSG = struct.Struct("=BxxxiIII")
TCA_KIND, TCA_OPTIONS, TCA_CHAIN = 1, 2, 11
