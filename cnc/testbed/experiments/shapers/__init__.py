"""How long frames are on their way that a shaper sends, against their bound.

experiment  what is run, and the report     pictures  of the latencies
"""

from cnc.testbed.experiments.shapers.experiment import Shapers

__all__ = ["Shapers"]
