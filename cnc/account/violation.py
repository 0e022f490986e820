"""A broken promise of a plan."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """`code` names the rule, `where` the stream or port, `text` what is wrong, with numbers."""

    code: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.code}]"
