"""A plain patch (RFC 8040 4.6.1): what a client sends is merged into what is there."""

from __future__ import annotations

from typing import Any

_KEYS = {
    "end-station-interfaces": ("mac-address", "interface-name"),
    "data-frame-specification": ("index",),
    "listener": ("index",),
}
# Of these an entry of data-frame-specification has one: another one takes its place.
_FIELDS = frozenset({"ieee802-mac-addresses", "ieee802-vlan-tag", "ipv4-tuple", "ipv6-tuple"})


def merged(there: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The object with what the patch has. Neither is changed; both are of the UNI's stream, the
    patch unchecked: what it makes is validated as a whole."""
    found = dict(there)
    if _FIELDS & patch.keys():
        found = {key: value for key, value in found.items() if key not in _FIELDS - patch.keys()}
    for key, value in patch.items():
        before = found.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            found[key] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            found[key] = _entries(before, value, _KEYS.get(key))
        else:
            found[key] = value
    return found


def _entries(there: list[Any], patch: list[Any], keys: tuple[str, ...] | None) -> list[Any]:
    if keys is None:  # a leaf-list
        return [*there, *(each for each in patch if each not in there)]
    found = list(there)
    places = {_key(each, keys): place for place, each in enumerate(there)}
    for each in patch:
        place = places.get(_key(each, keys))
        if place is None or not isinstance(each, dict):
            found.append(each)
        else:
            found[place] = merged(found[place], each)
    return found


def _key(entry: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(entry.get(key)) for key in keys) if isinstance(entry, dict) else ()
