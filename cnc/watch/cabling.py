"""Compares the cables with the intent whenever a switch hears another neighbour over LLDP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cnc.model import Network
from cnc.rollout.preflight import Verdict
from cnc.rollout.preflight.cabling import examine_cabling
from cnc.switch.topology import TopologyReport


class Cabling:
    """What all switches of a network hear: who a neighbour is, the switches tell together."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._reports: dict[str, TopologyReport] = {}

    def update(self, switch: str, report: TopologyReport) -> Mapping[str, Mapping[str, str]]:
        """By switch the ports with another neighbour than the intent's, with a description.

        A switch that hears nobody is left out, for nothing is known of its cables, and so are all
        where `switch` tells the same as before.
        """
        if self._reports.get(switch) == report:
            return {}
        self._reports[switch] = report
        found: dict[str, dict[str, str]] = {
            name: {} for name, its in self._reports.items() if its.lldp and its.lldp.neighbors
        }
        for finding in examine_cabling(self._network, self._reports):
            if finding.verdict is Verdict.WARNING and finding.switch in found and finding.port:
                found[finding.switch][finding.port] = finding.text
        return found

    def lose(self, switch: str) -> None:
        """Forget whom a switch hears that does not answer; others still know it by its identity."""
        known = self._reports.get(switch)
        if known and known.lldp:
            self._reports[switch] = replace(known, lldp=replace(known.lldp, neighbors=()))
