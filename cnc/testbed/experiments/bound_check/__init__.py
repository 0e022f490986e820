"""Whether every frame keeps the bound that the planner promised its stream.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.testbed.experiments.bound_check.experiment import BoundCheck

__all__ = ["BoundCheck"]
