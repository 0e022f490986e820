"""The mechanisms of the controller; a new one is a folder beside and a word in `loading`."""

from __future__ import annotations

from typing import Any

from cnc.mechanism import Mechanism, Watched
from cnc.mechanisms.loading import loaded

MECHANISMS: tuple[Mechanism[Any], ...] = loaded()

WATCHED: tuple[Watched, ...] = tuple(each.watched for each in reversed(MECHANISMS) if each.watched)
"""What the mechanisms count that count anything, in the order in which frames come to them."""
