"""Messages of several flows that pass a chain of components, from one end to the other.

roles       the components of a tactile chain, its flows, and which functions each calls
functions   the functions that are called where the operator names no other
program     the program of one component for one flow, run inside its end station
run         a run of all of them, and its record
"""
