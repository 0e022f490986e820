"""The notifications of RFC 8639 and RFC 8641 about one subscription, as XML."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from agent.netconfd import date_and_time
from agent.netconfd.capabilities import STREAM
from agent.netconfd.session.terms import OnChange, Periodic, StreamTerms, Terms
from agent.netconfd.subscription_errors import SUBSCRIBED, YANG_PUSH, namespace_of
from agent.sysrepo.differences import Edit

DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"


def push_update(number: int, contents: str) -> str:
    """All that is selected now."""
    return _push("push-update", number, f"<datastore-contents>{contents}</datastore-contents>")


def incomplete_update(number: int) -> str:
    """What is selected could not be read."""
    return _push("push-update", number, "<datastore-contents/><incomplete-update/>")


def push_change_update(number: int, patch: int, edits: Iterable[Edit]) -> str:
    """The changes since the last update, as a YANG patch (RFC 8072)."""
    content = "".join(_edit(index, edit) for index, edit in enumerate(edits, 1))
    return _push(
        "push-change-update",
        number,
        f"<datastore-changes><yang-patch><patch-id>{patch}</patch-id>{content}</yang-patch>"
        "</datastore-changes>",
    )


def replay_completed(number: int) -> str:
    """The earlier notifications that were asked for have been sent."""
    return f'<replay-completed xmlns="{SUBSCRIBED}"><id>{number}</id></replay-completed>'


def terminated(number: int, reason: str) -> str:
    """The subscription has ended; the reason is an identity."""
    return _ended("subscription-terminated", number, reason)


def suspended(number: int, reason: str) -> str:
    """Updates are left out from now on."""
    return _ended("subscription-suspended", number, reason)


def resumed(number: int) -> str:
    """Updates are sent again."""
    return f'<subscription-resumed xmlns="{SUBSCRIBED}"><id>{number}</id></subscription-resumed>'


def modified(number: int, terms: Terms | StreamTerms) -> str:
    """The terms from now on."""
    stop = _time("stop-time", terms.stop_ns)
    head = f'<subscription-modified xmlns="{SUBSCRIBED}"><id>{number}</id>'
    if isinstance(terms, StreamTerms):
        target = f"<stream>{STREAM}</stream>{terms.given_filter}"
        return f"{head}{target}{stop}</subscription-modified>"
    return (
        f'{head}<datastore xmlns="{YANG_PUSH}" xmlns:ds="{DATASTORES}">ds:{terms.datastore}'
        "</datastore>"
        f"{terms.given_filter}{stop}{_trigger(terms.trigger)}</subscription-modified>"
    )


def _trigger(trigger: Periodic | OnChange) -> str:
    if isinstance(trigger, Periodic):
        anchor = _time("anchor-time", trigger.anchor_ns)
        return (
            f'<periodic xmlns="{YANG_PUSH}"><period>{trigger.period_cs}</period>{anchor}</periodic>'
        )
    excluded = "".join(
        f"<excluded-change>{each}</excluded-change>" for each in sorted(trigger.excluded)
    )
    return (
        f'<on-change xmlns="{YANG_PUSH}"><dampening-period>{trigger.dampening_cs}'
        f"</dampening-period><sync-on-start>{str(trigger.sync_on_start).lower()}</sync-on-start>"
        f"{excluded}</on-change>"
    )


def _time(name: str, time_ns: int | None) -> str:
    return "" if time_ns is None else f"<{name}>{date_and_time.written(time_ns)}</{name}>"


def _push(name: str, number: int, content: str) -> str:
    return f'<{name} xmlns="{YANG_PUSH}"><id>{number}</id>{content}</{name}>'


def _ended(name: str, number: int, reason: str) -> str:
    module, namespace = namespace_of(reason)
    return (
        f'<{name} xmlns="{SUBSCRIBED}"><id>{number}</id>'
        f'<reason xmlns:{module}="{namespace}">{reason}</reason></{name}>'
    )


def _edit(index: int, edit: Edit) -> str:
    where = ""
    if edit.operation in {"insert", "move"}:
        where = (
            "<where>first</where>"
            if edit.point is None
            else f"<point>{escape(edit.point)}</point><where>after</where>"
        )
    value = "" if edit.value is None else f"<value>{edit.value}</value>"
    return (
        f"<edit><edit-id>edit{index}</edit-id><operation>{edit.operation}</operation>"
        f"<target>{escape(edit.target)}</target>{where}{value}</edit>"
    )
