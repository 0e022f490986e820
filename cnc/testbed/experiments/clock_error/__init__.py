"""What it costs when switches' clocks differ by more than the plan allows for.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures
"""

from cnc.testbed.experiments.clock_error.experiment import ClockError

__all__ = ["ClockError"]
