"""Which of a switch's reports are worth a line of their own, and in which words."""

from __future__ import annotations

from cnc.format import duration
from cnc.switch import subscription, tree
from cnc.switch.subscription import Notification
from cnc.watch.condition import WHOLE, Event, Note, What
from cnc.watch.observation import Notice

_LOOK_AFTER = {
    (tree.TSN_LINUX, "port-drift"),
    (tree.TSN_LINUX, "port-restored"),
    (tree.TSN_LINUX, "port-state-change"),
    (tree.TSN_LINUX, "clock-step"),
    (tree.TSN_LINUX, "agent-started"),
    (subscription.NETCONF_EVENTS, "netconf-config-change"),
    (subscription.NETCONF_EVENTS, "netconf-confirmed-commit"),
}


def asks_for_a_look(notification: Notification) -> bool:
    """Whether the switch may be in another state since."""
    return (notification.namespace, notification.name) in _LOOK_AFTER


def notes(notice: Notice) -> list[Event]:
    """The line that a report is worth, if any."""
    told = notice.notification
    match told.namespace, told.name:
        case tree.TSN_LINUX, "agent-started":
            kind, text = Note.AGENT_STARTED, f"process {told.leaves.get('pid', '?')}"
        case tree.TSN_LINUX, "clock-step":
            kind, text = Note.CLOCK_STEP, _step(told)
        case subscription.NETCONF_EVENTS, "netconf-config-change" if _is_of_running(told):
            kind, text = Note.CONFIGURATION_CHANGED, f"by {_who(told, 'changed-by/')}"
        case subscription.NETCONF_EVENTS, "netconf-confirmed-commit" if words := _taken_back(told):
            kind, text = Note.COMMIT_TAKEN_BACK, words
        case _:
            return []
    return [Event(What.NOTED, kind, notice.switch, WHOLE, text, notice.at)]


def _is_of_running(told: Notification) -> bool:
    return told.leaves.get("datastore") in {None, "running"}  # RFC 6470: running unless it says so


def _taken_back(told: Notification) -> str | None:
    match told.leaves.get("confirm-event"):
        case "timeout":
            return "not confirmed in time"
        case "cancel":
            return f"by {_who(told)}"
        case _:
            return None


def _step(told: Notification) -> str:
    step_ns = int(told.leaves.get("step-ns", "0"))
    direction = "back" if step_ns < 0 else "ahead"
    return (
        f"CLOCK_TAI moved {duration(abs(step_ns))} {direction}, "
        f"TAI offset {told.leaves.get('tai-offset', '?')} s"
    )


def _who(told: Notification, where: str = "") -> str:
    """The parameters that RFC 6470 gives a session in every notification."""
    user = told.leaves.get(f"{where}username")
    if user is None:
        return "the switch itself"
    host = told.leaves.get(f"{where}source-host")
    return f"{user} from {host}" if host else user
