"""The conditions of streams at one switch, by what its bridge counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum

from cnc.mechanism import Conditions
from cnc.mechanisms.registry import WATCHED
from cnc.model import PortSettings
from cnc.rollout.stream_counts import bridges_of
from cnc.watch.observation import Poll


class StreamConditions:
    """Compares the polls of one switch."""

    def __init__(self) -> None:
        self._of_bridge: defaultdict[str, list[Conditions]] = defaultdict(
            lambda: [each.conditions() for each in WATCHED]
        )

    def update(
        self, poll: Poll, desired: Mapping[str, PortSettings]
    ) -> dict[StrEnum, dict[str, str]]:
        """The conditions as of this poll, of bridges and ports, by kind."""
        found: dict[StrEnum, dict[str, str]] = {kind: {} for each in WATCHED for kind in each.kinds}
        for bridge, its in bridges_of(desired).items():
            for each in self._of_bridge[bridge]:
                for kind, port, text in each.update(bridge, its, poll):
                    found[kind][port] = text
        return found
