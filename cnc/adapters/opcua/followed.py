"""What happens to the streams of a service, as updates of what is known of them."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cnc.service.client import Client
from cnc.service.refused import CallRefused, Code

_AGAIN_S = 5.0
Key = tuple[str, str]  # CUC and stream-id
Stream = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class All:
    """All streams that there are."""

    streams: Mapping[Key, Stream]


@dataclass(frozen=True, slots=True)
class Changed:
    """One stream, or None: it is gone."""

    key: Key
    stream: Stream | None


@dataclass(frozen=True, slots=True)
class Away:
    """The service does not answer: what is known may be old."""

    reason: str


Update = All | Changed | Away


def followed(service: Client) -> Iterator[Update]:
    """Updates without end: all streams at first and whenever the service is back, then each that
    changes. It waits as long as nothing happens."""
    while True:
        try:
            after = service.document("live")["newest_event"]
            yield All(_all(service))
            for event in service.events(after):
                for key in _named(event):
                    yield Changed(key, _one(service, key))
            yield Away("the service has ended")
        except (CallRefused, OSError, http.client.HTTPException) as error:
            yield Away(str(error) or type(error).__name__)
        time.sleep(_AGAIN_S)


def _all(service: Client) -> dict[Key, Stream]:
    return {
        (cuc["cuc-id"], stream["stream-id"]): stream
        for domain in service.domains()
        for cuc in domain.get("cuc", ())
        for stream in cuc.get("stream", ())
    }


def _one(service: Client, key: Key) -> Stream | None:
    try:
        return service.stream(*key)
    except CallRefused as refused:
        if refused.code is Code.ABSENT:
            return None
        raise


def _named(event: Mapping[str, Any]) -> list[Key]:
    """The streams that an event is about."""
    cuc = event.get("cuc")
    if cuc is None:
        return []
    found = [event["stream_id"]] if "stream_id" in event else event.get("streams", [])
    return [(cuc, stream_id) for stream_id in [*found, *event.get("failed", {})]]
