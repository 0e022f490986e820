"""Control loops that are closed over a lab.

program     the programs of plant and controller, run inside their end stations
parts       plants and controllers, period by period
run         a run of both, and its record
response    figures of a step response
pictures    of step responses
"""
