"""Streams that come to an intent one by one, while all others stay as they are.

What an intent file says is read as a whole. A controller that is asked for a stream while the
network runs reads that stream alone, and beside it those with which it might be confused: it takes
as long as the network is large, but for the copy of two tables no longer with more streams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cnc.errors import InputError
from cnc.intent import semantics, validate
from cnc.intent.cuts import Cuts
from cnc.intent.streams import check_streams, check_ways
from cnc.keys import shape
from cnc.keys.contributed import KEYS
from cnc.keys.mapping import Shape
from cnc.keys.problems import Problems, shown
from cnc.keys.reach import FastestPaths
from cnc.keys.values import Name
from cnc.model import Intent, Stream

_Keys = Mapping[str, Any]
_WRITTEN_OUT = ("template", "for")  # `templates` replaces them in a file


class _Streams(Shape):
    """The part of an intent that changes."""

    streams: dict[Name, shape.Stream]


class Beside:
    """Reads streams beside those of intents that have the network of `intent`, its classes and its
    defaults: what `Intent.document` says but for `streams`."""

    def __init__(self, intent: Intent) -> None:
        document = {**intent.document, "streams": {}}
        self._document = validate(Problems(intent.name, {}, document), shape.Document)
        self._paths, self._cuts = FastestPaths(intent.network), Cuts(intent.network)
        # What checks find without any stream, such as loops without theirs, is nothing new.
        self._known: frozenset[str] = frozenset()
        self._known = frozenset(map(_place, self._found(intent, {}, {}, "")))

    def having(self, intent: Intent, streams: Mapping[str, _Keys], source: str) -> Intent:
        """The intent with these streams, by name with their keys, as an intent file has them; one
        of the same name is replaced. `source` is where they come from, for the messages.

        Raises InputError with one line for each problem, as for an intent file.
        """
        problems = Problems(source, {}, {"streams": streams})
        for name, keys in streams.items():
            for key in _WRITTEN_OUT:
                if isinstance(keys, Mapping) and key in keys:
                    written = f"the key {shown(key)}"
                    problems.add(("streams", name, key), written, "other keys of streams")
        problems.raise_if_any()
        shapes = validate(problems, _Streams).streams
        document = self._document.model_copy(update={"streams": shapes})
        wanted = semantics.streams(document, intent.classes)
        found = replace(
            intent,
            streams={**intent.streams, **wanted},
            document=_with(intent, {**intent.document["streams"], **streams}),
            parts=intent.parts.having(
                *(part for each in KEYS for part in each.with_streams(intent, document, streams))
            ),
        )
        self._check(found, shapes, wanted, source)
        return found

    def without(self, intent: Intent, names: Collection[str]) -> Intent:
        """The intent without these streams."""
        document = self._document
        gone = frozenset(names)

        def staying(streams: Mapping[str, Any]) -> dict[str, Any]:
            return {name: its for name, its in streams.items() if name not in gone}

        return replace(
            intent,
            streams=staying(intent.streams),
            document=_with(intent, staying(intent.document["streams"])),
            parts=intent.parts.having(
                *(part for each in KEYS for part in each.with_streams(intent, document, gone))
            ),
        )

    def _check(
        self,
        intent: Intent,
        shapes: Mapping[str, shape.Stream],
        wanted: Mapping[str, Stream],
        source: str,
    ) -> None:
        """Raises InputError with what is wrong with the streams `wanted`."""
        if new := self._found(intent, shapes, wanted, source):
            raise InputError("\n".join(new))
        problems = Problems(source, {}, intent.document)
        check_ways(replace(intent, streams=wanted), problems, self._paths, self._cuts)
        problems.raise_if_any()

    def _found(
        self,
        intent: Intent,
        shapes: Mapping[str, shape.Stream],
        wanted: Mapping[str, Stream],
        source: str,
    ) -> list[str]:
        """A line for each problem of these streams that there would not be without them."""
        others = {its.name: its for its in _neighbours(intent, wanted)}
        keys = {name: intent.document["streams"][name] for name in others}
        beside = validate(Problems(source, {}, {"streams": keys}), _Streams).streams
        # The new ones last: of two that cannot be told apart they are refused.
        document = self._document.model_copy(update={"streams": {**beside, **shapes}})
        few = replace(intent, streams={**others, **wanted})
        problems = Problems(source, {}, intent.document)
        check_streams(few, problems)
        for each in KEYS:
            each.check(document, few, problems)
        try:
            problems.raise_if_any()
        except InputError as error:
            return [
                text
                for text in str(error).splitlines()
                if _place(text.removeprefix(source)) not in self._known
            ]
        return []


def _place(problem: str) -> str:
    """Where a problem is and what is there: what is expected may name streams that are known."""
    return problem.partition(", expected ")[0]


def _neighbours(intent: Intent, wanted: Mapping[str, Stream]) -> Iterator[Stream]:
    """Those of the other streams with an address or a mark that one of these might have, too."""
    macs = {its.destination_mac for its in wanted.values() if its.destination_mac}
    talkers = {its.talker for its in wanted.values() if its.identification}
    if not (macs or talkers):
        return
    for name, its in intent.streams.items():
        is_alike = its.destination_mac in macs or (its.identification and its.talker in talkers)
        if is_alike and name not in wanted:
            yield its


def _with(intent: Intent, streams: Mapping[str, Any]) -> dict[str, Any]:
    """The document of an intent with these streams, written out."""
    return {**intent.document, "streams": streams}
