"""A schedule while clocks are kept together, and when they no longer are.

experiment  what is run, and the report     figures  of the rows that were measured
prediction  when frames become late         pictures of the figures
"""

from cnc.testbed.experiments.clock_loss.experiment import ClockLoss

__all__ = ["ClockLoss"]
