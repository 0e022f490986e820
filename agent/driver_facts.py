"""What drivers hand to the hardware of their ports, as their sources in Linux 6.12 say.

The kernel has no query for this, and no such hardware was at hand: each fact was read in the file
that is named, and asked of no device. Where a source reads a limit from a register, none is given.
A port whose driver is not listed has no facts: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

NS_PER_S = 1_000_000_000


class Takes(StrEnum):
    """The names are those of `tsn-linux.yang`."""

    GATES = "gates"  # taprio with flags 0x2
    FILTERS = "filters"  # flower
    POLICE = "police"  # of frames that a flower filter matches
    STREAM_GATES = "stream-gates"  # act_gate of such frames


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """`source` are files below drivers/net; limits are None where these name none.

    Intervals are multiples of `tick_ns`, as other ones are cut to it. `drops_long_frames`: not only
    a frame that fits no gate is dropped, but each that is longer than the shortest opening of its
    class. `notes` are what no limit says.
    """

    source: tuple[str, ...]
    takes: frozenset[Takes]
    list_max: int | None = None
    cycle_max_ns: int | None = None
    interval_min_ns: int | None = None
    interval_max_ns: int | None = None
    tick_ns: int | None = None
    drops_long_frames: bool = False
    notes: tuple[str, ...] = ()


_GATES = frozenset({Takes.GATES})
_FILTERS = frozenset({Takes.FILTERS, Takes.POLICE})
_ALL = frozenset(Takes)
_OCELOT = "ethernet/mscc/ocelot_flower.c"
_NO_CHANGE = "refuses another list while one runs: remove the gates of the port first"

# By the name of the device's driver; for others than DSA switches `ethtool -i` has the same.
FACTS: Mapping[str, DriverFacts] = {
    # The switch within NXP LS1028A. VSC9959_TAS_GCL_ENTRY_MAX, vsc9959_qos_port_tas_set,
    # vsc9959_tas_guard_bands_update, vsc9959_psfp_filter_add
    "mscc_felix": DriverFacts(
        ("dsa/ocelot/felix_vsc9959.c", _OCELOT),
        _ALL,
        list_max=63,
        cycle_max_ns=NS_PER_S,
        drops_long_frames=True,
        notes=(
            "refuses a list while another one waits for its base time",
            "takes stream gates and police in a chain of their own, once an address is learned",
        ),
    ),
    # VSC7514 and VSC9953: no TC_SETUP_QDISC_TAPRIO
    "ocelot-switch": DriverFacts(("ethernet/mscc/ocelot_net.c", _OCELOT), _FILTERS),
    "mscc_seville": DriverFacts(("dsa/ocelot/seville_vsc9953.c", _OCELOT), _FILTERS),
    # In sja1105_setup_tc_taprio: SJA1105_TAS_MAX_DELTA, of 200 ns each; SJA1105_MAX_SCHEDULE_COUNT
    # of all ports (the SJA1110 has more)
    "sja1105": DriverFacts(
        ("dsa/sja1105/sja1105_tas.c", "dsa/sja1105/sja1105_flower.c", "dsa/sja1105/sja1105_vl.c"),
        _ALL,
        list_max=1024,
        interval_min_ns=200,
        interval_max_ns=((1 << 18) - 1) * 200,
        tick_ns=200,
        notes=(
            "all ports share the entries, and no gates of two ports may change at one tick",
            _NO_CHANGE,
            "a list that comes or goes resets the switch: no port forwards meanwhile",
            "takes a stream gate beside a redirection of the frames alone",
        ),
    ),
    # lan966x_taprio_check, lan966x_tc_flower_add, lan966x_police_add (of whole ports alone)
    "lan966x-switch": DriverFacts(
        (
            "ethernet/microchip/lan966x/lan966x_taprio.c",
            "ethernet/microchip/lan966x/lan966x_tc_flower.c",
        ),
        frozenset({Takes.GATES, Takes.FILTERS}),
        list_max=256,
        cycle_max_ns=NS_PER_S - 1,
        interval_min_ns=1_000,
        interval_max_ns=NS_PER_S - 1,
        notes=("all ports share the entries, of running and of waiting lists",),
    ),
    # sparx5_port_setup_tc: no taprio; sparx5_tc_flower_psfp_setup
    "sparx5-switch": DriverFacts(
        (
            "ethernet/microchip/sparx5/sparx5_tc.c",
            "ethernet/microchip/sparx5/sparx5_tc_flower.c",
        ),
        _ALL - _GATES,
    ),
    # am65_cpsw_est_check_scheds: half of AM65_CPSW_FETCH_RAM_CMD_NUM, at least one command an entry
    "am65-cpsw-nuss": DriverFacts(
        ("ethernet/ti/am65-cpsw-qos.c",),
        _GATES,
        list_max=64,
        notes=(
            "holds 64 commands: an entry takes one for each 131 us (655 us at 100 Mb/s)",
            "rounds intervals up to 8 ns at 1 Gb/s, 40 ns at 100 Mb/s",
            _NO_CHANGE,
            "refuses a list while the link is down",
            "polices broadcast and multicast frames of a port alone",
        ),
    ),
    # tsnep_validate_gcl: TSNEP_MAX_GCL_NUM, TSNEP_GCL_MIN_INTERVAL
    "tsnep": DriverFacts(
        ("ethernet/engleder/tsnep_tc.c",), _GATES, list_max=255, interval_min_ns=32
    ),
    # enetc_setup_taprio; the length of a list is in a register
    "fsl_enetc": DriverFacts(
        ("ethernet/freescale/enetc/enetc_qos.c",),
        _ALL,
        cycle_max_ns=(1 << 32) - 1,
        notes=("takes no gates beside launch times",),
    ),
    # tc_taprio_configure; length and width of a list are in registers. tc_parse_flow_actions: drop
    # alone
    "st_gmac": DriverFacts(
        ("ethernet/stmicro/stmmac/stmmac_tc.c",), frozenset({Takes.GATES, Takes.FILTERS})
    ),
    # validate_schedule, igc_save_qbv_schedule
    "igc": DriverFacts(
        ("ethernet/intel/igc/igc_main.c",),
        _GATES,
        notes=(
            "a transmit queue opens once in a cycle",
            "an i225 refuses a base time that is ahead, and another list while one runs",
        ),
    ),
    # hellcreek_validate_schedule; only versions with qbv_support
    "hellcreek": DriverFacts(("dsa/hirschmann/hellcreek.c",), _GATES, cycle_max_ns=(1 << 32) - 1),
    # Without ndo_setup_tc
    "veth": DriverFacts(("veth.c",), frozenset()),
    "virtio_net": DriverFacts(("virtio_net.c",), frozenset()),
}
