"""Watching a network that a plan was brought to: what is wrong, since when, and putting it back.

following   one thread a switch: listens to its events, looks at it now and then
observer    what all of them see, judged: conditions that begin and end
judge, clocks, growth, noting   what a look, all clocks, a counter, a report say; pure
healing     when to push the plan again
watcher     all of them together; metrics and service_manager tell others
"""

from cnc.watch.condition import Event, Kind, Note, What
from cnc.watch.watcher import Watcher

__all__ = ["Event", "Kind", "Note", "Watcher", "What"]
