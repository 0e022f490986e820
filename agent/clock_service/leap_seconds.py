"""TAI - UTC from the system's list of leap seconds, as the IERS publishes it.

Lines of the file are the second (NTP, since 1900) from which an offset applies, and the offset;
comments begin with "#", and the one that begins with "#@" has the second at which the list expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Of Debian's package tzdata, and of most other distributions.
FILE = Path("/usr/share/zoneinfo/leap-seconds.list")
NTP_TO_UNIX_S = 2_208_988_800  # RFC 5905, figure 4
MAX_FILE_OCTETS = 2**20


@dataclass(frozen=True, slots=True)
class LeapSeconds:
    """The offsets by the second, since 1970, from which they apply; when the list expires."""

    offsets_s: tuple[tuple[int, int], ...]
    expires_s: int | None = None

    def tai_offset_s(self, now_s: int) -> int:
        """TAI - UTC at a second since 1970; 10 s, the first, before the list begins."""
        in_force = [offset for since_s, offset in self.offsets_s if since_s <= now_s]
        return in_force[-1] if in_force else self.offsets_s[0][1]


def read(path: Path = FILE) -> LeapSeconds:
    """Raises OSError where there is no list, ValueError where it is none."""
    with path.open("rb") as file:
        return parse(file.read(MAX_FILE_OCTETS).decode("ascii", "replace"))


def parse(text: str) -> LeapSeconds:
    """Raises ValueError, with the line."""
    offsets, expires_s = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].split()
        try:
            if line.startswith("#@"):
                expires_s = int(line[2:].split()[0]) - NTP_TO_UNIX_S
            if content:
                offsets.append((int(content[0]) - NTP_TO_UNIX_S, int(content[1])))
        except (ValueError, IndexError) as error:
            raise ValueError(f"line {number} is no leap second: {line!r}") from error
    if not offsets:
        raise ValueError("it lists no leap second")
    return LeapSeconds(tuple(sorted(offsets)), expires_s)
