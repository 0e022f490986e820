"""The virtual clocks of PTP hardware clocks (`n_vclocks`): each runs at a rate and offset of its
own over the hardware's counter, which the kernel lets nobody set while there are any (EBUSY)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/class/ptp")


def of(clock: int, root: Path = ROOT) -> list[int]:
    """The numbers of the virtual clocks of /dev/ptpN, in order; none: it can be set itself."""
    return sorted(int(each.name.removeprefix("ptp")) for each in root.glob(f"ptp{clock}/ptp[0-9]*"))
