"""MAC addresses as the trees of IEEE and IETF write them, and as the model does.

IEEE Std 802 writes six pairs of hexadecimal digits with hyphens (`mac-address` of `ieee802-types`),
RFC 6991 with colons (`phys-address` of `ietf-yang-types`); either may have letters of both cases.
"""

from __future__ import annotations


def to_tree(mac: str) -> str:
    """The address of the model as a node of IEEE's trees has it: upper case, with hyphens."""
    return mac.replace(":", "-").upper()


def from_tree(text: str) -> str:
    """An address of any tree as the model has it: lower case, with colons."""
    return text.replace("-", ":").lower()
