"""What a network makes of a control loop.

experiment  what is run, and the report     figures       of the curves that were measured
queues      ports without a schedule        pictures      of the curves
                                            path_picture  of a path that was followed
"""

from cnc.testbed.experiments.control_loop.experiment import ControlLoop

__all__ = ["ControlLoop"]
