"""What round-trip time and loss make of a control loop, and gains whose curves tell it best.

experiment  what is run, and the report       tuning    the search for gains
impairment  delay and loss at talkers' ports  sheets    tables of curves and gains
figures     of curves: measured, computed     pictures  of curves and gains
"""

from cnc.testbed.experiments.step_responses.experiment import StepResponses

__all__ = ["StepResponses"]
