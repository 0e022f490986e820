"""How long frames are on their way that are forwarded once each interval.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.testbed.experiments.cyclic_queuing.experiment import CyclicQueuing

__all__ = ["CyclicQueuing"]
