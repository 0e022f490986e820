"""What a power cut does to a node with an agent of a lab of kernels: a program to run on that node.

    python power_cut.py AHEAD_NS

Its programs end; what they have told the kernel, and have kept in memory, is gone. sysrepo's files
are left. The programs are started as they were with the lab, and it ends once the agent serves.

The kernel itself goes on, as a lab ends with any of its kernels. Its clock is set ahead, and loses
the frequency that ptp4l gave it, but still counts as synchronised: an agent is not to rely on that
where it has a ptp4l stored.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from pyroute2 import netns

from cnc import intent as intents
from cnc.testbed.intent.lab_model import ClockStep
from cnc.testbed.lab.kernels import layout, steps
from cnc.testbed.lab.kernels.node import await_ready, start_programs, switch_of
from cnc.testbed.lab.process import netns_argv
from cnc.testbed.lab.switch import AGENT, PROGRAMS_OF_A_KERNEL, executable


def main(ahead_ns: int) -> None:
    document = json.loads((layout.SHARED / layout.INTENT_FILE).read_text())
    intent = intents.from_document(document, "the lab's intent")
    switch = switch_of(intent, os.environ["CNC_NODE"])
    netns.setns("/proc/1/ns/net", flags=0)  # all that is left in the node's own one ends
    switch.forget()
    withdraw = [executable(AGENT), "--withdraw", "--state-dir", str(switch.agent_state)]
    subprocess.run(netns_argv(switch.namespace, withdraw), check=True)
    shutil.rmtree(switch.agent_state)
    for program in PROGRAMS_OF_A_KERNEL:
        switch.log(program).unlink()
    subprocess.run(["phc_ctl", "-q", "CLOCK_REALTIME", "--", "freq", "0"], check=True)
    subprocess.run(steps.command([ClockStep(at_ns=0, by_ns=ahead_ns)]), check=True)
    start_programs(intent, switch)
    await_ready(switch, AGENT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
