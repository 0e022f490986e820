"""How large buffers at switches make a flow wait, over how often it is sent.

experiment  what is run, and the report
figures     of one buffer at one interval, and what is expected of all
pictures    of means and losses
"""

from cnc.testbed.experiments.bufferbloat.experiment import Bufferbloat

__all__ = ["Bufferbloat"]
