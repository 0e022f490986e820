"""What a rollout to a switch with a device profile is without, said before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.finding import Check, Finding, Verdict
from cnc.model import CommitStyle, Profile
from cnc.support.format import duration

_STAYS = {
    CommitStyle.CANDIDATE: "it has no confirmed commit",
    CommitStyle.RUNNING: "it has no candidate: an edit acts at once",
}


def examine_profile(name: str, its: Profile) -> Iterator[Finding]:
    """A warning that says all of it: what our agent does, and this switch does not."""
    text = f"profile {its.name}: {'; '.join(lost(its))}"
    yield Finding(name, None, Check.PROFILE, Verdict.WARNING, text)


def lost(its: Profile) -> Iterator[str]:
    """What of a rollout's promises a switch with this profile does not keep, in words."""
    yield (
        f"a commit that comes late acts there (base times are {duration(its.lead_ns)} ahead at "
        "least, and a session that is given up is reset)"
    )
    yield "it takes the changes of every controller"
    if its.commit in _STAYS:
        yield (
            f"{_STAYS[its.commit]}, so it is reverted only while the controller lives and reaches "
            "it"
        )
    if not its.reads_back:
        yield "it does not report what it runs: only what it has stored is compared"
    if not its.reports_clock:
        yield "it does not report its clock, which is not compared"
