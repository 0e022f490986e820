"""Captures beside a plan: which frames were late, early, in a closed gate, too many or missing.

capture_file  packets of a pcap or pcapng file, with exact times and lengths
reading       frames of such files, with the port that each passed, and TAI
header        what a frame says of itself: address, tag, DSCP
gate          how far from its gate's windows a frame starts
planned       which frames are due at which port when, and when gates let them start
verdict       what there is to say of each frame, counted by stream and port
commented     frames with that as comments, for Wireshark
pcapng        captures as files
"""
