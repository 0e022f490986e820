"""What a share of the cycle does to traffic that does not know the cycle.

experiment  what is run, and the report     figures  of the rows that were measured
pictures    of the figures                      beside   a stream that is planned beside it
"""

from cnc.testbed.experiments.gate_share.experiment import GateShare

__all__ = ["GateShare"]
