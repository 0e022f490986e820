"""pyroute2 plugin for the pedit action, which edits octets of a frame (`TCA_PEDIT_*` of
linux/tc_act/tc_pedit.h).

Registered by `agent.kernel.tc_plugins`:

    {"kind": "pedit", "keys": [{"offset": 12, "keep": 0xFFFF0FFF, "set": 0xA000}]}

A key is a word of 32 bits, written as it stands in the frame, `offset` octets from the beginning of
the Ethernet header (a multiple of 4); the bits in `keep` stay, those in `set` are set.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.tcmsg.common import tc_actions

_GENERIC = struct.Struct("=IIiii")  # tc_gen: index, capabilities, action, references, bindings
_COUNT = struct.Struct("=BBxx")  # keys, flags
_KEY = struct.Struct("=4s4sIIII")  # mask, value, offset, at, offset mask, shift
_ETHERNET_HEADER, _SET = 1, 0  # TCA_PEDIT_KEY_EX_HDR_TYPE_ETH, TCA_PEDIT_KEY_EX_CMD_SET
_WORD_OCTETS = 4


class options(nla):  # noqa: N801  pyroute2 looks for this name
    """`TCA_ACT_OPTIONS`; `keys_of` reads the parameters."""

    nla_map = (
        ("TCA_PEDIT_UNSPEC", "none"),
        ("TCA_PEDIT_TM", "hex"),
        ("TCA_PEDIT_PARMS", "cdata"),
        ("TCA_PEDIT_PAD", "hex"),
        ("TCA_PEDIT_PARMS_EX", "cdata"),
        ("TCA_PEDIT_KEYS_EX", "extended_keys"),
    )

    class extended_keys(nla):  # noqa: N801
        nla_map = (
            *((f"TCA_PEDIT_{number}", "hex") for number in range(6)),
            ("TCA_PEDIT_KEY_EX", "extended_key"),
        )

        class extended_key(nla):  # noqa: N801
            nla_map = (
                ("TCA_PEDIT_KEY_EX_UNSPEC", "none"),
                ("TCA_PEDIT_KEY_EX_HTYPE", "uint16"),
                ("TCA_PEDIT_KEY_EX_CMD", "uint16"),
            )


def get_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_ACT_OPTIONS` of a request."""
    keys = values["keys"]
    parameters = _GENERIC.pack(0, 0, tc_actions[values.get("control", "pipe")], 0, 0)
    parameters += _COUNT.pack(len(keys), 0)
    for key in keys:
        keep, value = (key[name].to_bytes(_WORD_OCTETS, "big") for name in ("keep", "set"))
        parameters += _KEY.pack(keep, value, key["offset"], 0, 0, 0)
    extended = [
        ["TCA_PEDIT_KEY_EX_HTYPE", _ETHERNET_HEADER],
        ["TCA_PEDIT_KEY_EX_CMD", _SET],
    ]
    return {
        "attrs": [
            ["TCA_PEDIT_PARMS_EX", parameters],
            [
                "TCA_PEDIT_KEYS_EX",
                {"attrs": [["TCA_PEDIT_KEY_EX", {"attrs": extended}] for _ in keys]},
            ],
        ]
    }


def keys_of(action: Any) -> list[dict[str, int]]:
    """The keys of an action in a dump, as a request has them."""
    parameters = action.get("TCA_PEDIT_PARMS_EX")
    count, _flags = _COUNT.unpack_from(parameters, _GENERIC.size)
    first = _GENERIC.size + _COUNT.size
    words = (_KEY.unpack_from(parameters, first + number * _KEY.size) for number in range(count))
    return [
        {"offset": offset, "keep": int.from_bytes(keep, "big"), "set": int.from_bytes(value, "big")}
        for keep, value, offset, *_ in words
    ]
