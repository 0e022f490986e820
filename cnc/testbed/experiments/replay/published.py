"""What Polachan and others measured in "TCPSbed: A Modular Testbed for Tactile Internet-Based
Cyber-Physical Systems" (table I)."""

from __future__ import annotations

from decimal import Decimal

# In ms: least, greatest, mean and standard deviation, by the rate of links between switches and the
# speed at which bigFlows.pcap was replayed; 0: not.
TABLE_I = {
    (10_000_000, Decimal(0)): (0.34, 0.98, 0.41, 0.02),
    (10_000_000, Decimal(1)): (0.36, 625.39, 142.28, 156.73),
    (100_000_000, Decimal(1)): (0.35, 1.47, 0.42, 0.02),
    (100_000_000, Decimal(5)): (0.35, 5.33, 0.42, 0.99),
}
