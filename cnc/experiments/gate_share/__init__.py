"""What a share of the cycle does to traffic that does not know the cycle.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.experiments.gate_share.experiment import GateShare

__all__ = ["GateShare"]
