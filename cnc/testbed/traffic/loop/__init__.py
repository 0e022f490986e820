"""Control loops that are closed over a lab.

program     the programs of plant and controller, run inside their end stations
parts       plants and controllers, period by period
axes        what of a loop is controlled one by one, as plain data
stations    what both programs are told
run         a run of both, and its record
response    figures of a step response
path_error  figures of a path that was followed
"""
