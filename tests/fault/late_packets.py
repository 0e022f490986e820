"""A management link that holds the packets for its switch, and delivers them later.

Below TCP, as a queue in a network does: new connections, what is sent again and the reset of a
connection wait behind a commit, and come after it. What the switch sends passes.
"""

from __future__ import annotations

from functools import partial

from pyroute2 import IPRoute

from cnc.testbed.lab import namespaces

_HOLD, _PASS = "TCQ_PLUG_BUFFER", "TCQ_PLUG_RELEASE_INDEFINITE"
# More than the switch's clients send until they give up.
_LIMIT_OCTETS = 64 * 1024 * 1024


class LatePackets:
    """The link of one switch of a lab that is up."""

    def __init__(self, lab: str, switch: str) -> None:
        self._management = namespaces.of_management(lab)
        self._switch = switch
        self._plug("add", limit=_LIMIT_OCTETS)  # which holds from then on
        self.deliver()

    def hold(self) -> None:
        """From now on hold what is sent to the switch."""
        self._plug("change", action=_HOLD)

    def deliver(self) -> None:
        """Let everything pass, in order."""
        self._plug("change", action=_PASS)

    def _plug(self, command: str, **options: object) -> None:
        namespaces.inside(self._management, partial(self._plug_here, command, **options))

    def _plug_here(self, command: str, **options: object) -> None:
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname=self._switch)
            ip.tc(command, "plug", index, handle="1:", **options)
