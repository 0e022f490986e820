"""Rollouts while clocks settle, and while the clock of a switch is set.

experiment  what is run, and the report     figures  of what was pushed and measured
pictures    of the figures
"""

from cnc.testbed.experiments.clock_steps.experiment import ClockSteps

__all__ = ["ClockSteps"]
