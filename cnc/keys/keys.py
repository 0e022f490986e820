"""What a mechanism, or another room, has of an intent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from cnc.model import EndStation, Intent, Stream

if TYPE_CHECKING:
    from cnc.keys import shape
    from cnc.keys.mapping import Shape
    from cnc.keys.problems import Problems


class Level(Enum):
    """Of what in an intent a mechanism may have keys, or another room."""

    NETWORK = auto()
    DEFAULTS = auto()
    CLASS = auto()
    SWITCH = auto()
    PORT = auto()
    END_STATION = auto()
    LINK = auto()
    STREAM = auto()


@dataclass(frozen=True, slots=True)
class Keys:
    """What of an intent is a mechanism's, or another room's.

    `shapes` have its keys: `document[Shape]` reads those of the network, and so on. `read` are the
    parts of an intent that a document states; what is wrong with one by itself is added to the
    problems. `of_station` and `of_stream` are the same with what is stated of them here; `written`
    are the keys by which a stream is read so, beside what a document says of all. `gives_windows`
    is whether a class has windows that no stream asks for, and `completed` the intent with what
    follows from all of it. `check`
    adds to the problems what does not fit together, once all is read. `founding` are the parts that
    a plan is made from, by what they are called where two plans are compared. `with_streams` are
    those parts of an intent that change where the streams of a document, which has no others, come
    to it, and streams with these names leave it before.
    """

    shapes: Mapping[Level, type[Shape]]
    read: Callable[[shape.Document, Problems], Iterable[object]] = lambda _document, _problems: ()
    of_station: Callable[[EndStation, shape.EndStation, shape.Document], EndStation] = (
        lambda station, _its, _document: station
    )
    of_stream: Callable[[Stream, shape.Stream, shape.Document], Stream] = (
        lambda stream, _its, _document: stream
    )
    written: Callable[[Stream, Mapping[str, Any]], Mapping[str, Any]] = lambda _its, _document: {}
    gives_windows: Callable[[shape.Class], bool] = lambda _its: False
    completed: Callable[[Intent], Intent] = lambda intent: intent
    check: Callable[[shape.Document, Intent, Problems], None] = lambda _document, _its, _found: None
    founding: Mapping[str, type[Any]] = field(default_factory=dict)
    with_streams: Callable[[Intent, shape.Document, Collection[str]], Iterable[object]] = (
        lambda _intent, _document, _gone: ()
    )
