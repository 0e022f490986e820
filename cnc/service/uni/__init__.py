"""The UNI of IEEE 802.1Qdj in the words of the intent, and back: pure functions.

    refused    a request that the network does not carry: a code of table 46-15 and a sentence
    asked      a stream as a CUC writes it, read once
    ground     a network, looked up by what CUCs name
    stations   MAC addresses to end stations
    frames     by what frames are known: address, VLAN, priority, identification
    latency    their latency and ours
    wanted     the keys of a stream of the intent
    placed     what a CUC is told of a place, and whether it is in time
    shown      a stored stream as the standard's tree has it, and events as its notifications

docs/operate/uni.md has what becomes of each leaf.
"""

from cnc.service.uni.placed import TRIES_MAX, answer, narrowed
from cnc.service.uni.refused import Failure, Refused
from cnc.service.uni.wanted import wanted

__all__ = ["TRIES_MAX", "Failure", "Refused", "answer", "narrowed", "wanted"]
