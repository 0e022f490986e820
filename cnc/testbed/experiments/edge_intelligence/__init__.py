"""What an edge that predicts a signal makes of a lossy cable behind it.

experiment  what is run, and the report
figures     of one signal over one edge: measured, and computed
pictures    of signals at the device
"""

from cnc.testbed.experiments.edge_intelligence.experiment import EdgeIntelligence

__all__ = ["EdgeIntelligence"]
