"""What the paper says that the lab's figures stand beside."""

from __future__ import annotations

from cnc.model import NS_PER_S

_US = NS_PER_S // 1_000_000
_KBPS = 1_000

# Polachan, Pal, Singh, Prabhakar, Kuipers: "TCPSbed: A Modular Testbed for Tactile Internet-Based
# Cyber-Physical Systems", table II: measured latency of a code block, in nanoseconds, by the
# latency that was set and by what each host sends to each other one, in bits per second.
MEASURED_NS = {
    (set_us * _US, rate * _KBPS): measured_us * _US
    for set_us, *measured in (
        (1_000, 1_080, 1_070, 1_010),
        (3_000, 3_090, 3_150, 3_090),
        (5_000, 5_080, 5_150, 5_080),
        (10_000, 10_090, 10_160, 10_110),
        (15_000, 15_090, 15_110, 15_100),
    )
    for rate, measured_us in zip((0, 500, 750), measured, strict=True)
}
