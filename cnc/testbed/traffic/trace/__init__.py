"""Where the time of each frame goes, layer by layer.

`taps` record when frames pass ports, or `cable_taps` where each node is a kernel; `ways` say which
ports each is to pass, `join` makes a row a frame of that, and `account` divides its time among
layers: a pure function of rows, plan and `circumstances`, all in true time, as `clocks` tell it.
"""
