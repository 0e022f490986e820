"""A network frame by frame, with everything at its worst that a plan's assumptions leave open.

It tells whether a plan keeps its promises, and thereby whether the judge's verdicts are right. It
shares no code with planner and judge: of a `Plan` it reads lists, offsets and the intent, as data.

    gates         when a gate control list lets a class pass
    octets        how long frames take
    control       how much control waits before other frames
    ports         what leaves a port when: by the standard, or as Linux's taprio does it
    adversary     clocks, switches, control frames and losses, as bad as they are allowed to be
    clocks        how far they are off, each from the one that it follows
    filters       what first switches let pass of what talkers send
    motion        the frames of all flows, from port to port
    outcome       which frames came too late, or never
    mutations     plans with something wrong in them
    long          many random networks: `python -m tests.simulator.long`

What a plan rests on, and the adversary keeps: any two clocks of the network differ by no more than
its clock error; each link is within 100 millionths of its rate; a switch takes between its least
and greatest processing time, and keeps frames of one class from one port to another in order;
control comes to each port as the bursts and rates of its classes allow, and goes before all others;
besides a frame may start late by the gate margin. Of frames that share a window it is the window
that opens late, once, and what a talker sends for it may come late to its port. Frames that come to
a port at one instant from several others are in any order.
"""
