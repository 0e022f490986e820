"""What `cnc lab` does with an intent or a plan, as functions; commands and notebooks call these.

sending   the plan by which a lab's streams are sent, and from when on
traffic   send flows, and judge what became of them
loop      close a control loop
trace     account for the time of each frame, in a lab or between two hosts
tracing   the first half of that: send with taps at all ports

Nothing here parses a command line or prints, and every refusal is a `CncError` with a hint.
"""
