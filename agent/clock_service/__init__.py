"""`tsn-clock`: runs the PTP daemons of a switch, and tells the kernel TAI - UTC."""
