"""The notifications that are reported as events, and their texts."""

from __future__ import annotations

from enum import StrEnum

from cnc.data_tree import reply, tree
from cnc.mechanisms.registry import noted
from cnc.support.format import duration
from cnc.switch import subscription
from cnc.switch.subscription import Notification
from cnc.watch.condition import WHOLE, Event, Note, What
from cnc.watch.observation import SwitchNotification

_POLL_AFTER = {
    (tree.TSN_LINUX, "port-drift"),
    (tree.TSN_LINUX, "port-restored"),
    (tree.TSN_LINUX, "port-state-change"),
    (tree.TSN_LINUX, "clock-step"),
    (tree.TSN_LINUX, "ptp-grandmaster-change"),
    (tree.TSN_LINUX, "ptp-port-state-change"),
    (tree.TSN_LINUX, "agent-started"),
    (tree.TSN_LINUX, "latent-error"),
    (tree.TSN_LINUX, "latent-error-ended"),
    (subscription.NETCONF_EVENTS, "netconf-config-change"),
    (subscription.NETCONF_EVENTS, "netconf-confirmed-commit"),
}


def requires_poll(notification: Notification) -> bool:
    """Whether the notification may have changed the state of the switch."""
    return (notification.namespace, notification.name) in _POLL_AFTER


def events(received: SwitchNotification) -> list[Event]:
    """The event of a notification, if it has one."""
    notification, port = received.notification, WHOLE
    kind: StrEnum
    match notification.namespace, notification.name:
        case tree.TSN_LINUX, "agent-started":
            kind, text = Note.AGENT_STARTED, f"process {notification.leaves.get('pid', '?')}"
        case tree.TSN_LINUX, "clock-step":
            kind, text = Note.CLOCK_STEP, _step(notification)
        case tree.TSN_LINUX, "ptp-grandmaster-change":
            kind, text = Note.PTP_GRANDMASTER, _grandmaster(notification)
        case tree.TSN_LINUX, "ptp-port-state-change":
            port = notification.leaves.get("interface", WHOLE)
            kind, text = Note.PTP_PORT_STATE, _changed(notification, "state")
        case subscription.NETCONF_EVENTS, "netconf-config-change" if _is_of_running(notification):
            kind, text = Note.CONFIGURATION_CHANGED, f"by {_who(notification, 'changed-by/')}"
        case subscription.NETCONF_EVENTS, "netconf-confirmed-commit" if words := _taken_back(
            notification
        ):
            kind, text = Note.COMMIT_TAKEN_BACK, words
        case which if which in noted():
            kind, its = noted()[which]
            port, text = its.told(kind, notification.leaves)
        case _:
            return []
    return [Event(What.NOTED, kind, received.switch, port, text, received.at)]


def _is_of_running(notification: Notification) -> bool:
    return notification.leaves.get("datastore") in {
        None,
        "running",
    }  # RFC 6470: running unless it says so


def _taken_back(notification: Notification) -> str | None:
    match notification.leaves.get("confirm-event"):
        case "timeout":
            return "not confirmed in time"
        case "cancel":
            return f"by {_who(notification)}"
        case _:
            return None


def _step(notification: Notification) -> str:
    tai_offset = f"TAI offset {notification.leaves.get('tai-offset', '?')} s"
    try:
        step_ns = reply.number(notification.leaves.get("step-ns", "0"), "step-ns")
    except ValueError as error:  # the watch of the other switches goes on
        return f"CLOCK_TAI moved ({error}), {tai_offset}"
    direction = "back" if step_ns < 0 else "ahead"
    return f"CLOCK_TAI moved {duration(abs(step_ns))} {direction}, {tai_offset}"


def _grandmaster(notification: Notification) -> str:
    itself = notification.leaves.get("is-grandmaster") == "true"
    changed = _changed(notification, "grandmaster-identity")
    return f"is the grandmaster now: {changed}" if itself else f"another grandmaster: {changed}"


def _changed(notification: Notification, leaf: str) -> str:
    """What a leaf is now, and what it was."""
    leaves = notification.leaves
    return f"{leaves.get(leaf, '?')}, was {leaves.get('before', '?')}"


def _who(notification: Notification, where: str = "") -> str:
    """The session of a notification, by the parameters of RFC 6470."""
    user = notification.leaves.get(f"{where}username")
    if user is None:
        return "the switch itself"
    host = notification.leaves.get(f"{where}source-host")
    return f"{user} from {host}" if host else user
