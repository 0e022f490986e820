"""A signal that a station at the edge of a network predicts for the device behind it.

program     the programs of source, edge and device, run inside their end stations
predictors  what the edge sends, from what it has received
run         a run of all three, and its record
"""
