"""What a second look at a node tells, for who looks once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from cnc.data_tree.state import SwitchState
from cnc.mechanism import Followed
from cnc.mechanisms.registry import FOLLOWED
from cnc.model import Intent


class Found(NamedTuple):
    """What is wrong at a port, in words."""

    followed: Followed
    text: str


def second_look(
    node: str,
    poll: Callable[[Collection[str]], SwitchState],
    state: SwitchState,
    intent: Intent,
) -> dict[str, list[Found]]:
    """What is wrong at a node, by port; `state` is the first look.

    A second one follows, some seconds later, only if it can tell more. Raises what `poll` raises.
    """
    looking = [(each, each.looks(intent, node)) for each in FOLLOWED]
    for _, looks in looking:
        looks.update(state)
    found: dict[str, list[Found]] = {}
    wait_s = max((looks.next_poll_s for _, looks in looking), default=0)
    if not wait_s:
        return found
    time.sleep(wait_s)
    second = poll(state.ports)
    for each, looks in looking:
        for port, text in looks.update(second).items():
            found.setdefault(port, []).append(Found(each, f"{each.kind}: {text}"))
    return found
