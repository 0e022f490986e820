"""Where the time of each frame goes, layer by layer.

`taps` record when frames pass ports, `ways` say which ports each is to pass, `join` makes a row a
frame of that, and `account` divides its time among layers: a pure function of rows and plan.
"""
