"""A flow beside captured traffic, over ways with links of different rates.

experiment  what is run, and the report
figures     of one way at one speed, and what is expected of all
pictures    of the captured traffic and of latencies
published   what TCPSbed measured
"""

from cnc.testbed.experiments.replay.experiment import Replayed

__all__ = ["Replayed"]
