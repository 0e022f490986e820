"""What round-trip time and loss make of a control loop, and gains whose curves tell it best.

experiment  what is run, and the report      figures   of the curves: measured, and computed
impairment  delay and loss at talkers' ports  tuning    the search for gains
                                             pictures  of curves and gains
"""

from cnc.experiments.step_responses.experiment import StepResponses

__all__ = ["StepResponses"]
