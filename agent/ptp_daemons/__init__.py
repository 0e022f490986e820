"""The PTP daemons of a switch: what the agent asks of them, in files that `tsn-clock` follows."""
