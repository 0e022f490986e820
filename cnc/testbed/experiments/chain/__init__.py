"""Four flows through the components of a chain between an operator and a robot.

description  the file's keys        experiment   what is run, and the report
"""

from cnc.testbed.experiments.chain.experiment import Chain

__all__ = ["Chain"]
