"""Checks on every switch, before anything is sent, that a change is possible.

    switches ─► state ─► examine ─► findings ─┬─► refuse    a rollout stops at failures
                                              └─► render    `cnc doctor` shows everything

`finding` result of a check       `switches` agent, kernel, ports of each
`ports`   one port               `clocks`   all compared with each other
`mtus`    the longest packets    `cabling`  neighbours, in doctor
`profiles` what a switch lacks that does not run our agent
"""

from cnc.finding import Check, Finding, Verdict, refuse
from cnc.rollout.preflight.switches import examine

__all__ = ["Check", "Finding", "Verdict", "examine", "refuse"]
