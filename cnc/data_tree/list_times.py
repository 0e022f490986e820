"""What gate control lists have in common in the YANG tree: entries, when a list begins and how
often it repeats.

Gates of ports (`ieee802-dot1q-sched`) and of streams (`ieee802-dot1q-psfp`) have the same leaves.
"""

from __future__ import annotations

from fractions import Fraction

from lxml.builder import ElementMaker

from cnc.data_tree.reply import Element
from cnc.model import NS_PER_S, GateControlList


def first_start_ns(not_before_ns: int, cycle_ns: int) -> int:
    """The first instant from `not_before_ns` on at which a cycle begins that all lists of this
    length share: a multiple of it since 1970."""
    return -(-not_before_ns // cycle_ns) * cycle_ns


def gate_entries(make: ElementMaker, gates: GateControlList) -> Element:
    """The `admin-control-list` of a port. `make` has the namespace of the list, and `sched` for
    that of its module."""
    return make(
        "admin-control-list",
        *(
            make(
                "gate-control-entry",
                make("index", str(index)),
                make("operation-name", "sched:set-gate-states"),
                make("time-interval-value", str(entry.interval_ns)),
                make("gate-states-value", str(entry.gate_states)),
            )
            for index, entry in enumerate(gates.entries)
        ),
    )


def list_times(
    make: ElementMaker, cycle_ns: int, base_time_ns: int, fraction: str = "nanoseconds"
) -> list[Element]:
    """What follows the entries of an `admin-control-list`: its cycle, its base time (TAI), and that
    it is to come into force. `make` has the namespace of the list; `fraction` is what its revision
    calls the part of the base time behind the seconds."""
    # The standard's cycle time is a fraction of a second whose parts are 32 bits wide.
    cycle_s = Fraction(cycle_ns, NS_PER_S)
    return [
        make(
            "admin-cycle-time",
            make("numerator", str(cycle_s.numerator)),
            make("denominator", str(cycle_s.denominator)),
        ),
        make(
            "admin-base-time",
            make("seconds", str(base_time_ns // NS_PER_S)),
            make(fraction, str(base_time_ns % NS_PER_S)),
        ),
        make("config-change", "true"),
    ]
