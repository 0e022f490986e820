"""Clocks in a line of switches: how far each is from the first one's, and what its ptp4l says.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.testbed.experiments.sync.experiment import Sync

__all__ = ["Sync"]
