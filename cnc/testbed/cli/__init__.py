"""`cnc lab`: parse the arguments, call the laboratory, render the result.

lab       up, import, down, status, exec, shell     capture  frames at ports
traffic   frames through the lab                    clocks   clocks of a lab of kernels
trace     where the time of each frame goes         loop     a control loop
measure   experiments                               render   text and JSON
"""

# First, since it brings the commands together: those here, which build on its options, are imported
# on the way.
from cnc import cli as _controller  # noqa: F401
