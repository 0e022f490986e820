"""A station with two uplinks, both of them paths of multipath TCP.

description  the files
uplinks      the station in a lab: what its uplinks carry, how a push configures it, a connection
over_uplinks what each experiment has of it
aggregation  what two paths carry alone and together
on_demand    a medium whose second path is there on demand
reliability  a path that fails under a transfer
pictures     of all three
"""

from cnc.testbed.experiments.multipath.aggregation import Aggregation
from cnc.testbed.experiments.multipath.on_demand import OnDemand
from cnc.testbed.experiments.multipath.reliability import Reliability

__all__ = ["Aggregation", "OnDemand", "Reliability"]
