"""How late frames leave, with a time of transmission and without.

experiment  what is run, and the report     program   what sends at the station
figures     of the rows that were measured  pictures  of the figures
"""

from cnc.testbed.experiments.launch_time.experiment import LaunchTimes

__all__ = ["LaunchTimes"]
