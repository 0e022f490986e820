"""Monitoring of a network with a deployed plan: conditions, momentary events, repair of drift.

following       one thread for each switch: receives what it sends and looks at it
sources         where its state comes from: requests, or what it pushes
observer        turns the observations of all switches into conditions that begin and end
judge, clocks, messages
                evaluate a look, all clocks, a notification; pure
healing         decides when to push the plan again
watcher         combines them; metrics and service_manager publish the result
"""

from cnc.watch.condition import Event, Kind, Note, What
from cnc.watch.watcher import Watcher

__all__ = ["Event", "Kind", "Note", "Watcher", "What"]
