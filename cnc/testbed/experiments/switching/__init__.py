"""How evenly a switch in software forwards: Linux bridge, XDP, AF_XDP.

experiment  what is run, and the report     network   talker, switch and listener
figures     of the rows that were measured  pictures  of the figures
two-ports.c the switch by XDP and AF_XDP
"""

from cnc.testbed.experiments.switching.experiment import Switching

__all__ = ["Switching"]
