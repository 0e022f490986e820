"""Identification and translation of streams, as the controller asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cnc.mechanism import Changed, Kept, Mechanism, Needs, Planned, Switch, streams_in_words
from cnc.mechanisms.identification.compare import differences
from cnc.mechanisms.identification.derive import derive, known_by
from cnc.mechanisms.identification.model import Translation, Translations
from cnc.mechanisms.identification.shown import SHOWN
from cnc.model import StreamAddress
from cnc.support.lazy import lazy_import

_JUDGE = lazy_import("cnc.mechanisms.identification.judge")
_SEMANTICS = lazy_import("cnc.mechanisms.identification.semantics")
_TREE = lazy_import("cnc.mechanisms.identification.tree")
MODULE = "ieee802-dot1cb-stream-identification"


@dataclass(frozen=True, slots=True)
class _Row:
    """What a switch makes of the untagged frames of a stream."""

    address: StreamAddress
    translation: Translation


def _within(its: Translations, vlan_ids: Collection[int]) -> Translations:
    return Translations({a: each for a, each in its.by_stream.items() if a.vlan_id in vlan_ids})


def _rows(its: Translations) -> Iterator[_Row]:
    return (_Row(address, each) for address, each in its.by_stream.items())


MECHANISM = Mechanism(
    name="identification",
    part=Translations,
    planned=Planned(derive, known_by=known_by),
    changed=Changed(
        within=_within,
        differences=differences,
        joined=lambda own, _former: own,
        on_ports=lambda its, _ports: its,
        of_streams=lambda _its, _addresses: Translations(),
    ),
    switch=Switch(
        modules=(MODULE,),
        kernel=Needs(
            "identify streams",
            "state `policing: off`, and neither `identification` nor `elimination: switch`",
        ),
        yang=Needs("translate frames of", "let the talkers tag their frames"),
        concerned=lambda its, names: streams_in_words(its.by_stream, names),
        identifies=lambda its: {a for a, each in its.by_stream.items() if each.inward},
        names_streams=True,
    ),
    tree=lambda: _TREE.TREE,
    kept=Kept(
        key="translations",
        row=_Row,
        rows=_rows,
        part=lambda rows: Translations({each.address: each.translation for each in rows}),
    ),
    shown=SHOWN,
    keys=lambda: _SEMANTICS.KEYS,
    summary=lambda its: iter([(len(its.by_stream), "translation")]),
    judge=lambda: _JUDGE.JUDGE,
)
