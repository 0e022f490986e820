"""Checks, before a change, that a port interrupts frames: a plan whose guard bands rest on that is
refused where the port does not say so."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.data_tree.tree import PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Around
from cnc.mechanisms.preemption.model import FRAGMENT_OCTETS, PortPreemption, PreemptionReport
from cnc.model import PortRef

_VERIFIED = "succeeded"


def examine(
    ref: PortRef, asked: PortPreemption, report: PortReport | None, _around: Around
) -> Iterator[Finding]:
    """One finding about a port where best effort is to give way; nothing of others."""
    if not asked.priorities or report is None:
        return
    found = report[PreemptionReport]
    fault = unverified(found)
    if fault is None:
        text = "verified: best effort gives way"
        yield Finding(ref.node, ref.port, Check.PREEMPTION, Verdict.OK, text)
        return
    text = f"{fault}; the guard bands of the plan rest on it"
    hint = _hint(found, ref.port)
    yield Finding(ref.node, ref.port, Check.PREEMPTION, Verdict.FAILED, text, hint)


def unverified(its: PreemptionReport) -> str | None:
    """Why frames of best effort may keep the link for longer than a plan allows; None: they do
    not."""
    merge = its.mac_merge
    if merge is None:
        return (
            "the switch reports no MAC merge layer of the port (IEEE 802.3 clause 99): the kernel "
            "answers Operation not supported to ethtool --show-mm"
        )
    if not merge.tx_enabled:
        return "its MAC merge layer is not enabled: it interrupts no frame"
    if merge.verify_status != _VERIFIED:
        return (
            f"the other end of its link is not known to put fragments together: verify-status is "
            f"{merge.verify_status}, not {_VERIFIED}"
        )
    if not merge.tx_active:
        return "it interrupts no frame at present, although the other end is verified"
    if merge.tx_min_fragment_octets > FRAGMENT_OCTETS:
        return (
            f"it sends {merge.tx_min_fragment_octets} octets of a frame at once at least, a plan "
            f"reckons with {FRAGMENT_OCTETS} (tx-min-frag-size)"
        )
    return None


def _hint(its: PreemptionReport, port: str) -> str:
    merge = its.mac_merge
    without = f"take `preemption: true` of {port} out of the intent"
    if merge is None:
        return f"{without}: its driver cannot preempt (preemption.md has those that can)"
    command = f"ethtool --set-mm {port} pmac-enabled on tx-enabled on verify-enabled on"
    if merge.tx_min_fragment_octets > FRAGMENT_OCTETS:
        command += f" tx-min-frag-size {FRAGMENT_OCTETS}"
    return f"at both ends of the link: {command}; then push again. Or {without}"
