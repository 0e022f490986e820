"""What the agent tells of its own accord, as a subscriber hears it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sysrepo

WAIT_S = 30  # far longer than anything takes, on any machine


class Notifications:
    """Everything heard, in order: (name, leaves, when by CLOCK_MONOTONIC)."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict, float]] = []

    def named(self, name: str, **leaves: object) -> list[dict]:
        """Those of this name with these leaves."""
        return [
            content
            for heard, content, _ in self.heard
            if heard == name and leaves.items() <= content.items()
        ]

    def wait_for(self, name: str, **leaves: object) -> float:
        """Until such a one was heard; when that was."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for heard, content, when_s in self.heard:
                if heard == name and leaves.items() <= content.items():
                    return when_s
            time.sleep(0.01)
        raise AssertionError(f"no {name} {leaves} among {self.heard}")

    def forget(self) -> None:
        self.heard.clear()


@contextmanager
def subscribed(module: str = "tsn-linux") -> Iterator[Notifications]:
    notifications = Notifications()

    def on_notification(xpath, _type, leaves, _timestamp, _private):
        name = xpath.rpartition(":")[2]
        notifications.heard.append((name, dict(leaves), time.monotonic()))

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_notification(module, f"/{module}:*", on_notification)
        yield notifications
