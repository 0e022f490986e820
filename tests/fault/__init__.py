"""The proof that a rollout is all or nothing: every step of it, interrupted by every fault.

    network        five switches in a line and two schedules that differ on every port
    probe          a process says where it is, and waits for leave to go on
    instruments    probes put into the controller, an agent, a NETCONF server, from outside
    processes      programs as forks of one that has done all imports
    director       gives the leave; at one chosen step it strikes first
    ways           by which ways bridges forward, and what talkers send to
    guards         whose stream filters and sequence functions all bridges have
    copies         frames that are sent all the while, of which one copy has to come
    kernels        what the gates of every port do, and which of the two schedules that is
    bench          the lab with one instrumented switch: push, strike, recover
    matrix         step and fault: one row after another
    table          rows as JSON and as a table to read
    collect        the parts that several kernels made, as one
    moments        when a link that holds what is sent to a switch delivers it
    late_packets   such a link in the lab

`scripts/fault-matrix` runs it in a kernel that has taprio. Beside it, with ports in memory and no
kernel:

    link           such a link for rehearsed switches: a proxy
    late_bench     three of them, one behind it: push, hold, deliver, recover
    late_table     rows as JSON and as a table to read
    late           each RPC of a push, in every way, at every moment
"""
