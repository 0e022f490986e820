"""What switches say of the neighbours that they hear over LLDP."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.model import Network
from cnc.switch.topology import (
    Identifier,
    InterfaceReport,
    LldpReport,
    NeighborReport,
    TopologyReport,
)


def reports(
    network: Network, heard: Mapping[str, Mapping[str, tuple[str, str]]]
) -> dict[str, TopologyReport]:
    """What switches tell: by switch and interface, of whom and of which port of it they hear."""
    return {
        switch: TopologyReport(
            {
                port.port: InterfaceReport(port.port, "up", "", None)
                for port in network.links
                if port.node == switch
            },
            LldpReport(
                Identifier(f"chassis of {switch}"),
                switch,
                tuple(
                    NeighborReport(
                        port, Identifier(f"chassis of {who}"), Identifier(where), system_name=who
                    )
                    for port, (who, where) in neighbors.items()
                ),
            ),
        )
        for switch, neighbors in heard.items()
    }
