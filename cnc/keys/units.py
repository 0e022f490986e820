"""Quantities as the operator writes them, to whole base units and back. No floats on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cnc.model import NS_PER_S

_DIGITS_MAX = 15


@dataclass(frozen=True, slots=True)
class Quantity:
    """A physical quantity: `factors` has each unit's size in base units, largest first.

    Of two units of one size `format` writes the first; the base unit has size 1. Only what is
    `signed` may be below zero. `elsewhere` has units as other programs write them, in lower case,
    and which unit is meant: they are refused with it.
    """

    noun: str
    examples: str
    factors: Mapping[str, int]
    signed: bool = False
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """A regular expression (also of JSON Schema's dialect) for the text of a quantity."""
        units = "|".join(self.factors)
        digits = f"([0-9]{{1,{_DIGITS_MAX}}})"
        sign = "([+-]?)" if self.signed else ""
        return rf"^{sign}{digits}(?:\.{digits})? ?({units})$"

    @property
    def expected(self) -> str:
        return f"{self.noun} such as {self.examples}"

    def parse(self, text: object) -> int:
        """The quantity in its base unit; `ValueError` holds what was expected."""
        match = re.fullmatch(self.pattern, text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(self.expected + self._meant(text))
        *sign, whole, fraction, unit = match.groups("")
        scale: int = 10 ** len(fraction)
        value, rest = divmod(int(whole + fraction) * self.factors[unit], scale)
        if rest:
            base = next(u for u, factor in self.factors.items() if factor == 1)
            raise ValueError(f"{self.noun} in whole {base}")
        return -value if sign == ["-"] else value

    def _meant(self, text: object) -> str:
        """What a text in a unit of another program is here, as a question; nothing of others."""
        match = re.fullmatch(r"([0-9.]+) ?([a-z/]*)", str(text), re.IGNORECASE)
        if match is None:
            return ""
        number, unit = match.groups()
        meant = number + self.elsewhere.get(unit.lower(), "")
        return f"; did you mean {meant}?" if re.fullmatch(self.pattern, meant) else ""

    def format(self, value: int) -> str:
        """The shortest exact text: 1500000 ns is `1.5ms`."""
        if value < 0:
            return f"-{self.format(-value)}"
        unit, factor = next(
            ((u, f) for u, f in self.factors.items() if f <= value),
            next((u, f) for u, f in self.factors.items() if f == 1),
        )
        whole, rest = divmod(value, factor)
        fraction = f"{rest:0{len(str(factor)) - 1}}".rstrip("0") if rest else ""
        return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


_TIMES = {
    "s": NS_PER_S,
    "ms": 1_000_000,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ns": 1,
}
_OTHER_TIMES = {"sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
DURATION = Quantity("a duration", "250us, 1ms", _TIMES, elsewhere=_OTHER_TIMES)
TIME_OFFSET = Quantity("a time offset", "300us, -7ms", _TIMES, signed=True)
FREQUENCY_OFFSET = Quantity(
    "a frequency offset", "25ppm, -40ppb", {"ppm": 1_000, "ppb": 1}, signed=True
)
FREQUENCY_WALK = Quantity(
    "a random walk of frequency",
    "3ppb, 200ppt",
    {"ppm": 1_000_000, "ppb": 1_000, "ppt": 1},
)
FRAME_LOSS = Quantity("a share of frames", "0.1%, 1ppm", {"%": 10_000_000, "ppm": 1_000, "ppb": 1})
TIME_SHARE = Quantity("a share of the cycle", "25%, 12.5%", FRAME_LOSS.factors)
BIT_ERROR_RATIO = Quantity(
    "a bit error ratio",
    "1ppb (one bit of 10^9), 10ppt",
    {"%": 10_000_000_000, "ppm": 1_000_000, "ppb": 1_000, "ppt": 1},
)
RATE = Quantity(
    "a rate",
    "100Mbps, 1Gbps",
    {"Gbps": 1_000_000_000, "Mbps": 1_000_000, "kbps": 1_000, "bps": 1},
    elsewhere={
        f"{prefix.lower()}{unit}": f"{prefix}bps"
        for prefix in ("G", "M", "k", "")
        for unit in ("bit", "bit/s", "b/s", "bps")  # tc's first
    },
)
_OTHER_SIZES = dict.fromkeys(("", "byte", "bytes", "octet", "octets"), "B")
SIZE = Quantity("a size in octets", "200B, 1522B", {"B": 1}, elsewhere=_OTHER_SIZES)
