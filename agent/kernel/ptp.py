"""What the PTP daemon (linuxptp's ptp4l) says of its clock."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from agent.kernel.ptp_management import (
    DataSet,
    DefaultDataSet,
    Domain,
    ManagementId,
    ParentDataSet,
    PortDataSet,
    TimeStatus,
    ask,
    identity,
)
from agent.model import PtpPortState, PtpStatus

# uds_ro_address (since linuxptp 4.0) and uds_address; ptp4l(8)
ADDRESSES = ("/var/run/ptp4lro", "/var/run/ptp4l")
# Of a ptp4l that somebody else has configured: the domain that both standards begin with.
DOMAINS = (Domain(sdo=0, number=0), Domain(sdo=1, number=0))

QUESTIONS = (
    ManagementId.DEFAULT_DATA_SET,
    ManagementId.PARENT_DATA_SET,
    ManagementId.PORT_DATA_SET,
    ManagementId.TIME_STATUS_NP,
)

# 8.2.15.3.1, table 20
PORT_STATES = dict(enumerate(PtpPortState, start=1))


def status(
    addresses: tuple[str, ...] = ADDRESSES, domains: tuple[Domain, ...] = DOMAINS
) -> PtpStatus | None:
    """What the ptp4l of this network namespace says; None where none answers in time."""
    for address in addresses:
        with suppress(OSError):
            return _collect(ask(address, domains, QUESTIONS))
    return None


def _collect(data_sets: Iterable[DataSet]) -> PtpStatus | None:
    ports: dict[int, PtpPortState] = {}
    default, parent, time_status = None, None, None
    for data_set in data_sets:
        match data_set:
            case DefaultDataSet():
                default = data_set
            case ParentDataSet():
                parent = data_set
            case TimeStatus():
                time_status = data_set
            case PortDataSet() if data_set.state in PORT_STATES:  # others are reserved
                ports[data_set.port_number] = PORT_STATES[data_set.state]
        if time_status and parent and default and len(ports) == default.number_of_ports:
            break
    if time_status is None or parent is None or default is None:
        return None
    return PtpStatus(
        clock_identity=identity(default.clock_identity),
        parent_identity=identity(parent.parent_clock),
        grandmaster_identity=identity(time_status.grandmaster_identity),
        is_grandmaster=not time_status.has_master,
        offset_from_master_ns=time_status.offset_from_master_ns if time_status.has_master else None,
        ports=ports,
    )
