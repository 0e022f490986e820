"""What it takes to bring a plan to 1, 2, … switches, and where the time goes.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.testbed.experiments.control_overhead.experiment import ControlOverhead

__all__ = ["ControlOverhead"]
