"""Can this change be made? What is asked of every switch before anything is sent.

    switches ─► state ─► examine ─► findings ─┬─► refuse    a rollout stops at failures
                                              └─► render    `cnc doctor` shows everything

`finding` what a check says      `switches` agent, kernel, ports of each
`ports`   one port               `clocks`   all against each other
"""

from cnc.rollout.preflight.finding import Check, Finding, Verdict, refuse
from cnc.rollout.preflight.switches import examine

__all__ = ["Check", "Finding", "Verdict", "examine", "refuse"]
