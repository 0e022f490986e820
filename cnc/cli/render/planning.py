"""What check, plan and show print: of intents, plans, and the limits they were made within."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.render.output import new_table, open_console, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.loops.model import Loops
from cnc.mechanisms.terms import may_be_dropped
from cnc.model import (
    ORDINARY_MTU_OCTETS,
    ClassRole,
    Forwarding,
    GateLimits,
    Hop,
    Intent,
    Plan,
    PortRef,
    StreamPlan,
    Theory,
)
from cnc.plans.packets import longest_packets
from cnc.support.format import counted, duration, gate_limits, rate
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.check import Violation
    from cnc.mechanism import Openings
    from cnc.mechanisms import registry
else:
    registry = lazy_import("cnc.mechanisms.registry")

_ROWS_MAX = 100
_FULL_FROM = 0.9


def intent(checked: Intent, *, as_json: bool) -> None:
    network = checked.network
    counts = {
        "switches": len(network.bridges),
        "end_stations": len(network.end_stations),
        "links": len(network.links) // 2,
        "classes": len(checked.classes),
        "streams": len(checked.streams),
    }
    if as_json:
        from cnc.json_output.planning import CheckedIntent  # noqa: PLC0415

        print_json(CheckedIntent(name=checked.name, sound=True, **counts))
        return
    nouns = ("switch", "end station", "link", "class", "stream")
    words = ", ".join(map(counted, counts.values(), nouns))
    echo(f"{checked.name} is sound: {words}")


def verdict(plan: Plan, violations: Sequence[Violation], *, as_json: bool) -> None:
    if as_json:
        from cnc.json_output import planning  # noqa: PLC0415

        document = planning.CheckedPlan(
            name=plan.intent.name,
            valid=not violations,
            violations=[planning.Violation.model_validate(each) for each in violations],
            streams=len(plan.intent.streams),
            placed=len(plan.streams),
            refused=dict(plan.refused),
            openings=[planning.Openings.model_validate(each) for each in registry.openings(plan)],
        )
        print_json(document)
        return
    for violation in violations:
        echo(f"{violation.code} {violation.where}: {violation.text}")
    refused(plan)
    state = counted(len(violations), "violation") if violations else "valid"
    echo(
        f"plan of {plan.intent.name}: {state} "
        f"({_placed(plan)}, {counted(len(plan.gates), 'gate control list')})"
    )


def limits(stated: Mapping[PortRef, GateLimits]) -> None:
    """What the switches said that their ports can do, ports that can do the same together."""
    alike: dict[str, list[str]] = {}
    for port, its in stated.items():
        alike.setdefault(gate_limits(its), []).append(str(port))
    echo("what the switches state of their ports' gates:")
    for words, ports in alike.items():
        echo(f"  {words}: {some(ports, ', ')}")


def plan(computed: Plan, output: Path | None) -> None:
    several = any(computed.intent.streams[name].frames > 1 for name in computed.streams)
    sharing = any(placed.is_shared for placed in computed.streams.values())
    theories = {placed.theory for placed in computed.streams.values()}
    is_own = theories == {Theory.SCHEDULED}
    own = ", each frame in a window of its own" if is_own else ""
    table = new_table(
        f"{computed.intent.name}: {_placed(computed)} placed "
        f"(algorithm: {computed.algorithm}){own}",
        "stream",
        "class",
        *(["destination", ">VLAN", ">PCP"] if computed.addresses else []),
        "path",
        ">period",
        *([">frames"] if several else []),
        *([] if is_own or not theories else ["bound by"]),
        ">leaves talker at",
        ">latency bound",
        *([">bound if exact"] if sharing else []),
        ">allowed",
        *([">jitter bound", ">allowed"] if computed.jitter_ns else []),
        *([">recovers in"] if computed.recovery_ns else []),
    )
    shown = dict(islice(computed.streams.items(), _ROWS_MAX))
    exact_ns = _least_exact_ns(computed, shown) if sharing else {}
    for name, placed in shown.items():
        stream = computed.intent.streams[name]
        table.add_row(
            name,
            computed.class_of(name).name,
            *(_address(computed, name) if computed.addresses else []),
            f"{stream.talker} → {', '.join(stream.listeners)} ({_hops(placed)})",
            duration(stream.period_ns),
            *([str(stream.frames)] if several else []),
            *([] if is_own else [_bound_by(placed)]),
            ", ".join(_starts(computed, placed)),
            duration(placed.latency_bound_ns),
            *([f"≥ {duration(exact_ns[name])}" if name in exact_ns else ""] if sharing else []),
            duration(stream.max_latency_ns),
            *(_jitter(computed, name) if computed.jitter_ns else []),
            *([_recovers(computed, name)] if computed.recovery_ns else []),
        )
    if computed.intent.streams:
        print_table(table, len(computed.streams))
    else:
        echo(f"{computed.intent.name}: no streams\n")
    if sharing:
        echo(
            "shared: the talker starts at the first instant, and its frames have left by the "
            "second; bound if exact: the least in a window of its own, if there is room for one\n"
        )
    if Theory.CQF in theories:
        echo(
            "CQF, every T: the talker sends at any time, a burst each period; each switch sends in "
            "the next interval what it receives in one, so that the bound follows from the number "
            "of switches (IEEE 802.1Q annex T)\n"
        )
    if theories & {Theory.CBS, Theory.STRICT}:
        echo(
            "CBS, strict: the talker sends at any time, a burst each period; the bound is for all "
            "such streams together, by network calculus (802.1Q-2022 8.6.8.2 and 8.6.8.1)\n"
        )
    _print_windows(computed)
    _print_mechanisms(computed)
    _print_loops(computed)
    ports = new_table("gate control lists", "port", ">cycle", ">entries")
    for port, gates in islice(computed.gates.items(), _ROWS_MAX):
        ports.add_row(str(port), duration(gates.cycle_ns), str(len(gates.entries)))
    print_table(ports, len(computed.gates))
    _print_openings(computed)
    if full := _full_lists(computed):
        echo(f"near the limit of their port: {some(full, ', ')}")
    _mtus(computed)
    _lacking(computed)
    figures(computed)
    _shares(computed)
    if computed.recovery_ns:
        _recovery(computed)
    refused(computed)
    echo(f"wrote {output}" if output else "nothing written; -o FILE keeps the plan")


def _least_exact_ns(computed: Plan, shown: Mapping[str, StreamPlan]) -> dict[str, int]:
    """The least bound that streams which share windows would have in windows of their own."""
    from cnc.planner.exact_bound import least_ns  # noqa: PLC0415

    return least_ns(computed, (name for name, its in shown.items() if its.is_shared))


def _print_mechanisms(computed: Plan) -> None:
    """What mechanisms do for streams, a table for each that does anything."""
    for each in registry.MECHANISMS:
        if its := each.shown.table(computed):
            table = new_table(its.title, *its.columns)
            for row in islice(its.rows, _ROWS_MAX):
                table.add_row(*row)
            print_table(table, its.size)


def _print_openings(computed: Plan) -> None:
    """What each class can send by gate control lists that are given, for ports that are alike
    together; nothing without such lists."""
    of_port: dict[PortRef, tuple[tuple[str, ...], ...]] = {}
    for each in registry.openings(computed):
        of_port[each.port] = (*of_port.get(each.port, ()), _opening(each))
    if not of_port:
        return
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for port, rows in of_port.items():
        alike.setdefault(rows, []).append(str(port))
    table = new_table(
        "what classes have of gate control lists that are given",
        *("ports", "class", ">open", ">at most", ">waits up to", ">longest frame"),
    )
    for rows, ports in islice(alike.items(), _ROWS_MAX):
        for number, row in enumerate(rows):
            table.add_row("" if number else some(ports, ", "), *row)
    print_table(table, sum(map(len, alike)), whole="`cnc check --json` of the plan")
    echo(
        "at most: on the wire, with preambles and gaps; waits up to: a frame as long as its class "
        "has them, at the head of its queue, until it may start, other frames apart; no bound: its "
        "gate may open later (`gate-margin`) than it shuts, or holds no such frame\n"
    )


def _opening(its: Openings) -> tuple[str, ...]:
    return (
        its.class_name,
        f"{duration(its.open_ns)} of {duration(its.cycle_ns)}",
        rate(its.rate_bps),
        "no bound" if its.wait_ns is None else duration(its.wait_ns),
        "any" if its.frame_octets is None else f"{its.frame_octets} B",
    )


def _print_loops(computed: Plan) -> None:
    """How long each control loop takes, and of what that is made up; nothing without loops."""
    if not computed.loops:
        return
    table = new_table(
        "control loops: from the planned start of a sample until its command is at the plant",
        *("loop", ">period", ">sample", ">compute", ">wait", ">command", ">delay", ">deadline"),
    )
    for name, delay in islice(computed.loops.items(), _ROWS_MAX):
        loop = computed.intent[Loops].by_name[name]
        table.add_row(
            f"{name}: {loop.sensor}, {loop.actuator}",
            duration(loop.period_ns),
            *map(duration, (delay.sensor_ns, delay.compute_ns, delay.wait_ns, delay.actuator_ns)),
            duration(delay.total_ns),
            duration(loop.deadline_ns),
        )
    print_table(table, len(computed.loops))


def _jitter(computed: Plan, stream: str) -> list[str]:
    """The greatest bound at a listener, and what it may be; nothing where that is not limited."""
    allowed_ns = computed.intent.streams[stream].max_jitter_ns
    if allowed_ns is None:
        return ["", ""]
    return [duration(max(computed.jitter_ns[stream].values())), duration(allowed_ns)]


def _address(computed: Plan, stream: str) -> list[str]:
    address = computed.addresses[stream]
    pcp = computed.class_of(stream).priority
    return [address.destination_mac, str(address.vlan_id), str(pcp)]


def _starts(computed: Plan, placed: StreamPlan) -> Iterable[str]:
    """When the talker sends, once for each path, and until when at most in a window that it shares;
    in a bridged network a switch may copy a frame."""
    if not placed.has_instants:
        return ["any time"]
    texts = [_start(path[0]) for path in placed.paths]
    bridged = computed.intent.network.forwarding is Forwarding.BRIDGED
    return dict.fromkeys(texts) if bridged else texts


def _bound_by(placed: StreamPlan) -> str:
    """The theory that its bound follows from."""
    if placed.is_cyclic:
        return f"{placed.theory}, every {duration(placed.interval_ns)}"
    return placed.theory


def _start(first: Hop) -> str:
    start = duration(first.offset_ns)
    return f"{start} to {duration(first.window_end_ns)}" if first.is_shared else start


def _print_windows(computed: Plan) -> None:
    """The windows that frames share at ports of switches; nothing where there are none."""
    from cnc.plans.shared_windows import shared_windows  # noqa: PLC0415

    names = {its.number: its.name for its in computed.intent.classes.values()}
    rows = [
        (
            str(port),
            names[window.traffic_class],
            duration(window.opens_ns),
            duration(window.closes_ns),
            duration(window.cycle_ns),
            str(len(window.streams)),
        )
        for port, windows in sorted(shared_windows(computed).items())
        if port.node in computed.intent.network.bridges
        for window in windows
    ]
    if rows:
        table = new_table(
            "windows that frames share, in any order",
            *("port", "class", ">opens", ">all sent by", ">every", ">streams"),
        )
        for row in rows[:_ROWS_MAX]:
            table.add_row(*row)
        print_table(table, len(rows))


def _mtus(computed: Plan) -> None:
    """The ports that need a greater MTU than Ethernet's."""
    needed: dict[int, list[str]] = {}
    for port, packets in sorted(longest_packets(computed).items()):
        if packets.octets > ORDINARY_MTU_OCTETS:
            needed.setdefault(packets.octets, []).append(str(port))
    for octets, ports in needed.items():
        echo(f"ports that need an MTU of {octets} octets: {some(ports, ', ')}")


def _lacking(computed: Plan) -> None:
    """What switches do without."""
    for each in registry.MECHANISMS:
        if lack := each.shown.lack(computed):
            echo(f"{lack.text}: {some(lack.where, ', ')} ({lack.key})")


def figures(planned: Plan) -> None:
    """What the plan rests on, where it comes from, and what the gate margin costs."""
    for each in (figure for its in registry.MEASURED for figure in its.figures(planned)):
        costs = _costs(planned) if each.takes_share else ""
        echo(f"{each.name} {duration(each.value_ns)} ({each.source}){costs}")


def _shares(computed: Plan) -> None:
    """What best effort keeps of the port that leaves it the least; nothing where the intent states
    no share."""
    from cnc.planner.shares import least_kept  # noqa: PLC0415

    if least := least_kept(computed):
        echo(
            f"best effort keeps {least.kept} of {least.port}, the port that leaves it the least, "
            f"in turns of its largest frame or longer (min-share {least.wanted})"
        )


def _costs(planned: Plan) -> str:
    from cnc.planner.margin_cost import best_effort_shares, cost_ns  # noqa: PLC0415

    text = ""
    instants = {name: its for name, its in planned.streams.items() if its.has_instants}
    alone = {name: its for name, its in instants.items() if not its.is_shared}
    if alone:
        costs_ns = {name: cost_ns(planned, its) for name, its in alone.items()}
        name = max(costs_ns, key=lambda each: costs_ns[each])
        bound_ns = planned.streams[name].latency_bound_ns
        text += (
            f": part of each latency bound, of {name} {duration(costs_ns[name])} "
            f"({duration(bound_ns - costs_ns[name])} without it)"
        )
    if len(alone) < len(instants):
        text += "; of frames that share a window once for all of them"
    if shares := best_effort_shares(planned):
        port, share, without = shares
        text += f"; best effort keeps {share:.1%} of {port}, the worst port"
        if len(alone) == len(planned.streams):
            text += f" ({without:.1%} without it)"
    return text


def _recovers(computed: Plan, stream: str) -> str:
    """For how many cycles of its ports after a disturbance the stream may be late; for how many of
    its periods where it crosses no switch."""
    if stream not in computed.recovery_ns:
        return "no bound"
    ports = (hop.egress for hop in computed.streams[stream].hops)
    cycles = (computed.gates[port].cycle_ns for port in ports if port in computed.gates)
    cycle_ns = max(cycles, default=computed.intent.streams[stream].period_ns)
    return counted(-(-computed.recovery_ns[stream] // cycle_ns), "cycle")


def _recovery(computed: Plan) -> None:
    """What recovery from disturbances costs: nothing, unless frames are late."""
    disturbance = duration(computed.intent.network.disturbance_ns or 0)
    bounded, placed = len(computed.recovery_ns), counted(len(computed.streams), "stream")
    who = "all streams" if bounded == len(computed.streams) else f"{bounded} of {placed}"
    text = (
        f"if a port cannot send for up to {disturbance}, {who} are back within their bounds "
        f"{duration(max(computed.recovery_ns.values()))} later"
    )
    switched = [port for port in computed.gates if port.node in computed.intent.network.bridges]
    if switched:
        share, port = max((_backlog_share(computed, port), port) for port in switched)
        text += (
            "; no bandwidth is reserved for this: until then late frames may take up to "
            f"{share:.1%} of {port} from best effort"
        )
    echo(text)
    dropped = sum(
        may_be_dropped(computed.intent, name, computed.class_of(name).name)
        for name in computed.streams
    )
    if dropped:
        echo(
            f"policing: drop for {dropped} of {counted(len(computed.streams), 'stream')}: their "
            "out-of-profile frames are dropped at the first switch, and need no recovery"
        )


def _backlog_share(computed: Plan, port: PortRef) -> float:
    """The share of time in which best effort and a scheduled class may send both."""
    intent = computed.intent
    scheduled = sum(1 << c.number for c in intent.classes_with(ClassRole.SCHEDULED))
    others = sum(1 << c.number for c in intent.classes_with(ClassRole.BEST_EFFORT))
    gates = computed.gates[port]
    both = sum(
        entry.interval_ns
        for entry in gates.entries
        if entry.gate_states & scheduled and entry.gate_states & others
    )
    return both / gates.cycle_ns


def difference(running: Plan, computed: Plan, *, anew: bool) -> None:
    """What a plan changes for those who run by another: one made around it, or all `anew`."""
    from cnc.planner import moves  # noqa: PLC0415
    from cnc.planner.incremental import unchanged  # noqa: PLC0415

    both = [name for name in computed.streams if name in running.streams]
    if anew:
        movers = [move.stream for move in moves(running, computed)]
        names = f": {some(movers, ', ')}" if movers else ""
        echo(f"{len(movers)} of {counted(len(both), 'running stream')} would move{names}")
        return
    kept = unchanged(computed.intent, running)
    added = len(computed.streams) - len(both)
    removed = sum(name not in computed.intent.streams for name in running.streams)
    echo(
        f"kept {counted(len(kept), 'running stream')} in place, placed "
        f"{counted(len(both) - len(kept), 'changed one')} again, added {added}, removed {removed}"
    )


def refused(plan: Plan) -> None:
    """Loud, and last on the screen: these streams will not be carried."""
    if not plan.refused:
        return
    console = open_console()
    warning = f"NO place for {len(plan.refused)} of {counted(len(plan.intent.streams), 'stream')}:"
    console.print(warning, style="bold red", highlight=False)
    reasons = some([f"  {name}: {why}" for name, why in plan.refused.items()], "\n")
    console.print(reasons, style="red", highlight=False, soft_wrap=True)


def chart(shown: Plan) -> None:
    from cnc.chart import text  # noqa: PLC0415

    console = open_console()
    color = console.color_system is not None and not console.no_color
    # It has printed foreign text already, and paints with escape sequences of its own.
    click.echo(text(shown, width=console.width, color=color), color=color)


def _full_lists(plan: Plan) -> list[str]:
    """The ports with little room for more gate entries."""

    full = []
    for port, gates in plan.gates.items():
        limit = plan.intent.network.gate_entries_max(plan.intent.network.links[port])
        if limit is not None and len(gates.entries) > limit * _FULL_FROM:
            full.append(f"{port}: {len(gates.entries)} of {counted(limit, 'entry')}")
    return full


def _placed(plan: Plan) -> str:
    """How many streams have a place, and of how many if that is not all."""
    placed, wanted = len(plan.streams), len(plan.intent.streams)
    streams = counted(wanted, "stream")
    return streams if placed == wanted else f"{placed} of {streams}"


def _hops(placed: StreamPlan) -> str:
    """How many links each of its paths has."""
    lengths = [len(path) for path in placed.paths]
    if len(lengths) == 1:
        return counted(lengths[0], "hop")
    return f"{' + '.join(map(str, lengths))} hops"
