"""Drivers of ports of a switch whose hardware forwards: what they do with filters and tables.

They keep what is set as the kernel does, and tell it in the kernel's messages.
"""

from __future__ import annotations

import errno
import struct

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from agent.kernel.cls_flower import get_parameters
from agent.kernel.netlink_batch import Message, Refusal, attribute, attributes

SKIP_HW, SKIP_SW, IN_HW, NOT_IN_HW = 1, 2, 4, 8
REASON = NetlinkError(errno.EOPNOTSUPP, "Unsupported action")


class Driver:
    """What the driver of a port does with filters: it takes them or not.

    The kernel keeps a filter that the driver does not take, unless it is for hardware alone.
    """

    def __init__(self, *, takes: bool) -> None:
        self.takes = takes
        self.asked: list[int] = []

    def listed(self, flags: int) -> int:
        """The flags with which the kernel lists a filter that was set with these."""
        self.asked.append(flags)
        if flags & SKIP_HW:
            return flags | NOT_IN_HW
        if flags & SKIP_SW and not self.takes:
            raise REASON
        return flags | (IN_HW if self.takes else NOT_IN_HW)


class TrafficControl:
    """Keeps filters as the kernel does, for those who ask by IPRoute.tc."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.filters: dict[tuple[int, int], tcmsg] = {}

    def tc(self, command, kind=None, index=0, **values):
        if command == "get-filter":
            return [
                each for each in self.filters.values() if each["info"] >> 16 == self.prio(values)
            ]
        if command == "del-filter":
            gone = [at for at in self.filters if at[0] == values["prio"]]
            for at in gone:
                if values.get("handle") in {None, at[1]}:
                    del self.filters[at]
            return []
        shown = self.driver.listed(values["flags"])
        parameters = get_parameters(values | {"flags": shown})
        message = tcmsg()
        message["index"], message["handle"] = index, values["handle"]
        message["info"] = values["prio"] << 16
        message["attrs"] = [["TCA_KIND", kind], ["TCA_OPTIONS", parameters]]
        message.encode()
        received = tcmsg(message.data)
        received.decode()
        self.filters[values["prio"], values["handle"]] = received
        return []

    @staticmethod
    def prio(values) -> int:
        return values["info"] >> 16


class Filters:
    """Keeps filters as the kernel does, for those who send messages."""

    TCMSG, OPTIONS, FLAGS = struct.Struct("=BxxxiIII"), 2, 22
    SET, DELETE = 44, 45  # RTM_NEWTFILTER, RTM_DELTFILTER

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.payloads: dict[tuple[int, ...], bytes] = {}

    def send(self, messages):
        return [Refusal(each, why) for each in messages if (why := self._refusal(each))]

    def _refusal(self, message):
        place = self.TCMSG.unpack_from(message.payload)
        if message.kind == self.DELETE:
            _family, _ifindex, handle, hook, info = place
            for other in self._at(hook, info):
                if handle in {0, other[2]}:  # without one all filters of its `prio`
                    del self.payloads[other]
            return None
        parts = dict(attributes(message.payload[self.TCMSG.size :]))
        options = dict(attributes(parts[self.OPTIONS]))
        (asked,) = struct.unpack("=I", options[self.FLAGS])
        try:
            options[self.FLAGS] = struct.pack("=I", self.driver.listed(asked))
        except NetlinkError as refusal:
            return refusal
        parts[self.OPTIONS] = b"".join(attribute(*each) for each in options.items())
        listed = b"".join(attribute(*each) for each in parts.items())
        self.payloads[place] = message.payload[: self.TCMSG.size] + listed
        return None

    def dump(self, request):
        *_, hook, info = self.TCMSG.unpack_from(request.payload)
        return [Message(self.SET, self.payloads[each]) for each in self._at(hook, info)]

    def _at(self, hook, info):
        return [each for each in self.payloads if each[3] == hook and each[4] >> 16 == info >> 16]

    def close(self):
        pass


class NoTables:
    """A driver without tables of priorities."""

    def ask(self, _request):
        raise NetlinkError(errno.EOPNOTSUPP, "Operation not supported")

    def close(self):
        pass


class Tables:
    """A driver with tables of priorities: entries and the selectors that count.

    `refuses` is an error number for entries by code point, `forgets` lets it keep none of them. Of
    two entries for the same frames it keeps the one that is set, unless the other's priority is 0,
    as lan966x and sparx5 do.
    """

    SET, GET, DELETE = 20, 21, 27
    IFNAME, IEEE, APPS, TRUST = 1, 13, 3, 11
    CODE_POINT = 255

    def __init__(self, apps=(), trust=(), *, refuses=0, forgets=False) -> None:
        self.apps, self.trust = set(apps), None if trust is None else list(trust)
        self.refuses, self.forgets = refuses, forgets

    def ask(self, request):
        command = request.payload[1]
        found = dict(attributes(request.payload[4:]))
        assert found[self.IFNAME] == b"p1\0"
        if command == self.GET:
            return [self.answer(self.ieee())]
        ieee = dict(attributes(found[self.IEEE]))
        entries = [struct.unpack("=BBH", v) for _k, v in attributes(ieee.get(self.APPS, b""))]
        outcome = 0
        for entry in entries:
            outcome = outcome or (self.delete if command == self.DELETE else self.set)(entry)
        if self.TRUST in ieee:
            self.trust = [value[0] for _kind, value in attributes(ieee[self.TRUST])]
        return [self.answer(bytes([-outcome % 256]))]

    def set(self, entry):
        selector, priority, protocol = entry
        if entry in self.apps:
            return errno.EEXIST
        if selector == self.CODE_POINT and self.refuses:
            return self.refuses
        same = {each for each in self.apps if each[::2] == (selector, protocol) and each[1]}
        self.apps -= same
        if not (selector == self.CODE_POINT and self.forgets):
            self.apps.add((selector, priority, protocol))
        return 0

    def delete(self, entry):
        if entry not in self.apps:
            return errno.ENOENT
        self.apps.remove(entry)
        return 0

    def ieee(self):
        tables = b"".join(
            attribute(2 if each[0] == self.CODE_POINT else 1, struct.pack("=BBH", *each))
            for each in self.apps
        )
        ieee = attribute(self.APPS, tables)
        if self.trust is not None:
            selectors = (attribute(2 if each == 255 else 1, bytes([each])) for each in self.trust)
            ieee += attribute(self.TRUST, b"".join(selectors))
        return ieee

    def answer(self, ieee):
        return Message(79, bytes(4) + attribute(self.IEEE, ieee))

    def close(self):
        pass
