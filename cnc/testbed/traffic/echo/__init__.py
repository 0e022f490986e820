"""Echo commands that ask each component of a chain how far away it is.

chain     components, and their echo points
program   the programs of test PC and components, run inside their end stations
sampling  which differences are sampled, and when there are enough of them
run       a run of all of them, and its record
"""
