"""Algorithm 1: a medium gets a further path while the paths that it has cannot keep up.

C = WB / VB is what the first path carries over what the medium needs, BR what is loaded ahead of
what is played. Below C = 1 a further path is opened each time that BR is below the threshold, until
all paths together carry VB.

The listing doubles the threshold at each opening, up to half of the medium, and closes nothing: its
threshold soon exceeds what a player loads ahead, so that the further path stays for good (reading
`printed`, which closes at BR >= threshold). The text promises the path "only when demand occurs":
reading `claimed` keeps the threshold, and closes the newest path from a second one on. Of two paths
of 6.2 and 6.9 Mb/s under a medium of 8 Mb/s, 20 minutes long, the second carried 28 % by `claimed`,
45 % by `printed` and 42 % without any algorithm (docs/multipath.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.mechanisms.multipath.decisions.policy import OnDemand, Reading

_BITS, _NS_PER_S = 8, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Playback:
    """What is loaded ahead of what is played, if the medium plays on whenever something is loaded;
    `octets` are all that had come at `at_ns`."""

    ahead_ns: int
    octets: int
    at_ns: int

    def after(self, octets: int, at_ns: int, media_rate_bps: int) -> Playback:
        """What was not loaded could not be played: then it stands still."""
        loaded_ns = (octets - self.octets) * _BITS * _NS_PER_S // media_rate_bps
        ahead_ns = self.ahead_ns + loaded_ns - (at_ns - self.at_ns)
        return Playback(max(0, ahead_ns), octets, at_ns)


@dataclass(frozen=True, slots=True)
class Demand:
    """How many further paths are open, since when, and below which BR there is one more."""

    threshold_ns: int
    opened: int = 0
    since_ns: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a connection, in a time in which its paths were the same. Rates are in bit/s."""

    ahead_ns: int
    first_path_bps: int
    all_paths_bps: int
    media_rate_bps: int
    media_duration_ns: int | None = None


def step(demand: Demand, policy: OnDemand, its: Measured, available: int, now_ns: int) -> Demand:
    """One path more, one less, or as before; `available` is how many further paths there are."""
    ahead = f"{its.ahead_ns / _NS_PER_S:.1f} s are loaded ahead"
    is_short = max(its.first_path_bps, its.all_paths_bps) < its.media_rate_bps
    if is_short and demand.opened < available and its.ahead_ns < demand.threshold_ns:
        why = (
            f"{ahead}, less than {demand.threshold_ns / _NS_PER_S:g} s, and C is "
            f"{its.first_path_bps / its.media_rate_bps:.2f}"
        )
        threshold_ns = _threshold_ns(demand, policy, its.media_duration_ns)
        return Demand(threshold_ns, demand.opened + 1, now_ns, why)
    if demand.opened and its.ahead_ns >= _removal_ns(demand, policy):
        return replace(demand, opened=demand.opened - 1, since_ns=now_ns, why=ahead)
    return demand


def _threshold_ns(demand: Demand, policy: OnDemand, media_duration_ns: int | None) -> int:
    if policy.reading is Reading.CLAIMED:
        return demand.threshold_ns
    doubled_ns = 2 * demand.threshold_ns
    return min(doubled_ns, media_duration_ns // 2) if media_duration_ns else doubled_ns


def _removal_ns(demand: Demand, policy: OnDemand) -> int:
    is_claimed = policy.reading is Reading.CLAIMED
    return policy.removal_threshold_ns if is_claimed else demand.threshold_ns
