"""What was captured elsewhere, sent through a lab.

ip_packets    what of them is sent: length, DSCP, addresses
flow          flows of such packets, at the instants of the capture or faster or slower
sender        the program that sends them, `tsn-probe replay`
"""
