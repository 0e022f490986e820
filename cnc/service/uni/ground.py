"""What every request asks of a network: whose an address is, and the fastest ways."""

from __future__ import annotations

from collections import defaultdict

from cnc.keys.reach import FastestPaths
from cnc.model import Link, Network, Stream


class Ground:
    """A network, looked up by what CUCs name."""

    def __init__(self, network: Network) -> None:
        stations = network.end_stations
        self.by_mac = {its.mac: name for name, its in stations.items() if its.mac}
        self.leaving: dict[str, list[Link]] = defaultdict(list)
        self.arriving: dict[str, list[Link]] = defaultdict(list)
        for link in network.links.values():
            if link.source.node in stations:
                self.leaving[link.source.node].append(link)
            if link.target.node in stations:
                self.arriving[link.target.node].append(link)
        self._paths = FastestPaths(network)

    def least_ns(self, stream: Stream) -> int:
        """The least latency of ours that physics allows; 0 where no way leads to a listener, of
        which the intent tells. `stream` asks for a max-latency of 0, so that the fastest way is
        found."""
        found = [self._paths.latency_ns(stream, listener) for listener in stream.listeners]
        return max((each for each in found if each is not None), default=0)


_LAST: list[tuple[Network, Ground]] = []


def ground(network: Network) -> Ground:
    """That of a network. The last one is kept: a service has one network, and its plans share it,
    while to look it up takes longer than all else that becomes of a request."""
    for its, known in _LAST:
        if its is network:
            return known
    made = Ground(network)
    _LAST[:] = [(network, made)]
    return made
