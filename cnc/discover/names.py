"""Names that an intent may have, made of what devices call themselves."""

from __future__ import annotations

import re

NAME_MAX = 63
# What an intent may call the port of a node. A switch is configured by its interface's own name, so
# another one cannot stand for it.
PORT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,14}")
SHOWN_MAX = 60


class Names:
    """Gives each node a unique name."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last_number: dict[str, int] = {}

    def give(self, wanted: str, otherwise: str) -> str:
        """A name like `wanted`, or like `otherwise` if nothing of it is left.

        Of a host name with its domain the first part is enough.
        """
        name = plain(wanted.partition(".")[0]) or plain(otherwise)
        chosen, number = name, self._last_number.get(name, 1)
        while chosen in self._given:
            number += 1
            suffix = f"-{number}"
            chosen = name[: NAME_MAX - len(suffix)] + suffix
        self._last_number[name] = number
        self._given.add(chosen)
        return chosen


def plain(text: str) -> str:
    """`text` with only what a name may have; "" if no letter is left to begin with."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")
    return re.sub(r"^[^A-Za-z]+", "", name)[:NAME_MAX]


def printable(text: str, longest: int = SHOWN_MAX) -> str:
    """Foreign text for a comment: one line, nothing that moves a cursor or turns the writing."""
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def quoted(text: str) -> str:
    return f'"{printable(text)}"'
