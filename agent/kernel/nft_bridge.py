"""An nftables table of the family bridge that lets only listed frames leave by the ports of one
bridge, in the VLANs that it lists (linux/netfilter/nf_tables.h).

    table bridge tsn-forwarding-br0 {
      set vlans      { type inet_service }                       # VLAN identifiers
      set entries    { type ether_addr . inet_service . ifname } # destination, VLAN, port
      set members    { type inet_service . ifname }              # VLAN, port: a record only
      chain forward {
        type filter hook forward priority -200; policy accept;
        meta obrname "br0" vlan id @vlans
          ether daddr . vlan id . oifname != @entries counter drop
      }
    }

The table is replaced as a whole, in one transaction. What it lists is what the agent has made: the
kernel keeps no record of that with the entries of a bridge.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel.bridge_entries import MAC_OCTETS
from agent.kernel.netlink_batch import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Message,
    NetlinkSocket,
    Refusal,
    attribute,
    attributes,
    raise_first,
)

_NFPROTO_BRIDGE, _SUBSYSTEM = 7, 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _NEWSET, _NEWSETELEM, _GETSETELEM = (
    _SUBSYSTEM << 8 | number for number in (0, 2, 3, 6, 9, 12, 13)
)
_NFGENMSG = struct.Struct(">BBH")
# NFTA_*: attributes of tables, chains, rules, sets and their elements,
_TABLE_NAME = 1
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_TYPE = 1, 3, 4, 7
_HOOK_NUMBER, _HOOK_PRIORITY = 1, 2
_RULE_TABLE, _RULE_CHAIN, _RULE_EXPRESSIONS = 1, 2, 4
_SET_TABLE, _SET_NAME, _SET_FLAGS, _SET_KEY_TYPE, _SET_KEY_OCTETS, _SET_ID = 1, 2, 3, 4, 5, 10
_ELEMENTS_TABLE, _ELEMENTS_SET, _ELEMENTS = 1, 2, 3
_ELEMENT_KEY = 1
_LIST_ELEMENT, _VALUE, _VERDICT, _VERDICT_CODE = 1, 1, 2, 1
# and of the expressions of a rule.
_EXPRESSION_NAME, _EXPRESSION_DATA = 1, 2
_META_TO, _META_KEY = 1, 2
_CMP_FROM, _CMP_OPERATION, _CMP_DATA = 1, 2, 3
_PAYLOAD_TO, _PAYLOAD_BASE, _PAYLOAD_OFFSET, _PAYLOAD_OCTETS = 1, 2, 3, 4
_BITWISE_FROM, _BITWISE_TO, _BITWISE_OCTETS, _BITWISE_MASK, _BITWISE_XOR = 1, 2, 3, 4, 5
_LOOKUP_SET, _LOOKUP_FROM, _LOOKUP_FLAGS = 1, 2, 5
_IMMEDIATE_TO, _IMMEDIATE_DATA = 1, 2

_NF_BR_FORWARD, _PRIORITY = 2, -200
_IFNAMSIZ = 16
_ELEMENTS_PER_MESSAGE = 500  # an attribute holds 64 KiB

# Data types as nft(8) numbers them, six bits for each part of a key.
_ETHER_ADDR, _INET_SERVICE, _IFNAME = 9, 13, 41
# Registers: 4 octets each, in the order of the parts of a key.
_REG_VERDICT, _REG_1, _MAC_AT, _VLAN_AT, _PORT_AT = 0, 1, 8, 10, 11
_META_OIFNAME, _META_BRI_OIFNAME = 7, 18
_LINK_LAYER, _CMP_EQUAL = 0, 0
_TAG_AT, _VLAN_TAG = 12, 0x8100  # the Ethertype of a tagged frame, and what follows it
_INVERTED, _DROP = 1, 0


# There is none, or the kernel has no nftables, or not of this family.
_NO_TABLE = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.EAFNOSUPPORT})


class ListedEntry(NamedTuple):
    """Frames to this address in this VLAN may leave by this port."""

    mac: bytes
    vlan_id: int
    port: str


class ListedMember(NamedTuple):
    """The port is recorded as a member of the VLAN."""

    vlan_id: int
    port: str


class Listed(NamedTuple):
    """What a table lists. Nothing leaves in the VLANs of `members` but what is in `entries`."""

    entries: frozenset[ListedEntry] = frozenset()
    members: frozenset[ListedMember] = frozenset()


class BridgeTable:
    """The table of one bridge."""

    def __init__(self, kernel: NetlinkSocket, bridge: str) -> None:
        """`kernel` is a socket of the family NETLINK_NETFILTER."""
        self._kernel, self._bridge = kernel, bridge
        self._name = _text(f"tsn-forwarding-{bridge}")

    def read(self) -> Listed:
        """What the table lists; nothing where there is none. Raises NetlinkError."""
        return Listed(
            frozenset(
                ListedEntry(key[:MAC_OCTETS], _vlan_id(key, 8), _port(key, 12))
                for key in self._keys("entries")
            ),
            frozenset(
                ListedMember(_vlan_id(key, 0), _port(key, 4)) for key in self._keys("members")
            ),
        )

    def replace(self, listed: Listed) -> None:
        """Let the table list this; without anything there is no table. Raises NetlinkError."""
        table = attribute(_TABLE_NAME, self._name)
        messages = [
            _message(_NEWTABLE, table, NLM_F_CREATE),  # so that there is one to delete
            _message(_DELTABLE, table),
        ]
        if listed != Listed():
            messages += self._contents(listed)
        raise_first(self._transact(messages))

    def refusal(self) -> NetlinkError | None:
        """Why the kernel takes no such table, None where it takes one; nothing is made.

        In the same transaction the table is to be made once more, as one that is not there yet:
        that is always refused, and the kernel does nothing of a transaction that it does not do as
        a whole.
        """
        again = _message(_NEWTABLE, attribute(_TABLE_NAME, self._name), NLM_F_CREATE | NLM_F_EXCL)
        refusals = self._transact([*self._contents(Listed()), again])
        return next((each.error for each in refusals if each.message is not again), None)

    def _transact(self, messages: Sequence[Message]) -> list[Refusal]:
        begin, end = (
            Message(each, _NFGENMSG.pack(0, 0, _SUBSYSTEM)) for each in (_BATCH_BEGIN, _BATCH_END)
        )
        return self._kernel.transact([begin, *messages, end])

    def _keys(self, name: str) -> Iterator[bytes]:
        request = _message(
            _GETSETELEM,
            attribute(_ELEMENTS_TABLE, self._name) + attribute(_ELEMENTS_SET, _text(name)),
        )
        try:
            listed = self._kernel.dump(request)
        except NetlinkError as refusal:
            if refusal.code in _NO_TABLE:
                return
            raise
        for message in listed:
            of_set = dict(attributes(message.payload[_NFGENMSG.size :]))
            for _list, element in attributes(of_set.get(_ELEMENTS, b"")):
                key = dict(attributes(element))[_ELEMENT_KEY]
                yield dict(attributes(key))[_VALUE]

    def _contents(self, listed: Listed) -> Iterator[Message]:
        yield _message(_NEWTABLE, attribute(_TABLE_NAME, self._name), NLM_F_CREATE)
        port_key = _INET_SERVICE << 6 | _IFNAME
        yield self._set("vlans", 1, _INET_SERVICE, 2)
        yield self._set("entries", 2, _ETHER_ADDR << 12 | port_key, 8 + 4 + _IFNAMSIZ)
        yield self._set("members", 3, port_key, 4 + _IFNAMSIZ)
        yield self._chain()
        yield self._rule()
        vlan_ids = sorted({each.vlan_id for each in listed.members})
        yield from self._elements("vlans", [struct.pack(">H", each) for each in vlan_ids])
        yield from self._elements(
            "entries",
            [
                each.mac + bytes(2) + _vlan_key(each.vlan_id) + _padded(each.port)
                for each in sorted(listed.entries)
            ],
        )
        yield from self._elements(
            "members",
            [_vlan_key(each.vlan_id) + _padded(each.port) for each in sorted(listed.members)],
        )

    def _set(self, name: str, number: int, key_type: int, key_octets: int) -> Message:
        of_set = attribute(_SET_TABLE, self._name) + attribute(_SET_NAME, _text(name))
        of_set += attribute(_SET_FLAGS, _be32(0)) + attribute(_SET_KEY_TYPE, _be32(key_type))
        of_set += attribute(_SET_KEY_OCTETS, _be32(key_octets))
        return _message(_NEWSET, of_set + attribute(_SET_ID, _be32(number)), NLM_F_CREATE)

    def _chain(self) -> Message:
        hook = attribute(_HOOK_NUMBER, _be32(_NF_BR_FORWARD))
        hook += attribute(_HOOK_PRIORITY, struct.pack(">i", _PRIORITY))
        chain = attribute(_CHAIN_TABLE, self._name) + attribute(_CHAIN_NAME, _text("forward"))
        chain += attribute(_CHAIN_HOOK, hook) + attribute(_CHAIN_TYPE, _text("filter"))
        return _message(_NEWCHAIN, chain, NLM_F_CREATE)

    def _rule(self) -> Message:
        expressions = (
            _meta(_META_BRI_OIFNAME, _REG_1),
            _equal(_REG_1, _padded(self._bridge)),
            _payload(_TAG_AT, 2, _REG_1),
            _equal(_REG_1, struct.pack(">H", _VLAN_TAG)),
            _payload(_TAG_AT + 2, 2, _VLAN_AT),
            _masked(_VLAN_AT, b"\x0f\xff"),
            _lookup("vlans", _VLAN_AT, 0),
            _payload(0, MAC_OCTETS, _MAC_AT),
            _meta(_META_OIFNAME, _PORT_AT),
            _lookup("entries", _MAC_AT, _INVERTED),
            _expression("counter", b""),
            _verdict(_DROP),
        )
        rule = attribute(_RULE_TABLE, self._name) + attribute(_RULE_CHAIN, _text("forward"))
        rule += attribute(_RULE_EXPRESSIONS, b"".join(expressions))
        return _message(_NEWRULE, rule, NLM_F_CREATE)

    def _elements(self, name: str, keys: Sequence[bytes]) -> Iterator[Message]:
        for start in range(0, len(keys), _ELEMENTS_PER_MESSAGE):
            elements = b"".join(
                attribute(_LIST_ELEMENT, attribute(_ELEMENT_KEY, attribute(_VALUE, key)))
                for key in keys[start : start + _ELEMENTS_PER_MESSAGE]
            )
            of_set = attribute(_ELEMENTS_TABLE, self._name) + attribute(_ELEMENTS_SET, _text(name))
            of_set += attribute(_ELEMENTS, elements)
            yield _message(_NEWSETELEM, of_set, NLM_F_CREATE)


def _message(kind: int, content: bytes, flags: int = 0) -> Message:
    return Message(kind, _NFGENMSG.pack(_NFPROTO_BRIDGE, 0, 0) + content, flags)


def _expression(name: str, content: bytes) -> bytes:
    named = attribute(_EXPRESSION_NAME, _text(name)) + attribute(_EXPRESSION_DATA, content)
    return attribute(_LIST_ELEMENT, named)


def _meta(key: int, register: int) -> bytes:
    loaded = attribute(_META_TO, _be32(register)) + attribute(_META_KEY, _be32(key))
    return _expression("meta", loaded)


def _equal(register: int, value: bytes) -> bytes:
    compared = attribute(_CMP_FROM, _be32(register)) + attribute(_CMP_OPERATION, _be32(_CMP_EQUAL))
    return _expression("cmp", compared + attribute(_CMP_DATA, attribute(_VALUE, value)))


def _payload(offset: int, octets: int, register: int) -> bytes:
    loaded = attribute(_PAYLOAD_TO, _be32(register)) + attribute(_PAYLOAD_BASE, _be32(_LINK_LAYER))
    loaded += attribute(_PAYLOAD_OFFSET, _be32(offset)) + attribute(_PAYLOAD_OCTETS, _be32(octets))
    return _expression("payload", loaded)


def _masked(register: int, mask: bytes) -> bytes:
    content = attribute(_BITWISE_FROM, _be32(register)) + attribute(_BITWISE_TO, _be32(register))
    content += attribute(_BITWISE_OCTETS, _be32(len(mask)))
    content += attribute(_BITWISE_MASK, attribute(_VALUE, mask))
    content += attribute(_BITWISE_XOR, attribute(_VALUE, bytes(len(mask))))
    return _expression("bitwise", content)


def _lookup(name: str, register: int, flags: int) -> bytes:
    content = attribute(_LOOKUP_SET, _text(name)) + attribute(_LOOKUP_FROM, _be32(register))
    return _expression("lookup", content + attribute(_LOOKUP_FLAGS, _be32(flags)))


def _verdict(code: int) -> bytes:
    verdict = attribute(_VERDICT, attribute(_VERDICT_CODE, _be32(code)))
    content = attribute(_IMMEDIATE_TO, _be32(_REG_VERDICT)) + attribute(_IMMEDIATE_DATA, verdict)
    return _expression("immediate", content)


def _be32(value: int) -> bytes:
    return struct.pack(">I", value)


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _padded(port: str) -> bytes:
    return port.encode().ljust(_IFNAMSIZ, b"\0")


def _vlan_key(vlan_id: int) -> bytes:
    return struct.pack(">Hxx", vlan_id)


def _vlan_id(key: bytes, position: int) -> int:
    return int(struct.unpack_from(">H", key, position)[0])


def _port(key: bytes, position: int) -> str:
    return key[position : position + _IFNAMSIZ].rstrip(b"\0").decode()
