"""Sockets whose frames are in the traffic class of their stream."""

from __future__ import annotations

import socket

from cnc.talker.offsets import StreamOffset


def mark(sock: socket.socket, dscp: int | None, priority: int | None) -> None:
    """Give all frames of a socket this DSCP, and this priority for the queues of the own port.

    socket(7): a priority above 6 needs CAP_NET_ADMIN. Setting the TOS sets the priority, too
    (ip(7)), so it comes first. Raises OSError.
    """
    if dscp is not None and sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    elif dscp is not None:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    if priority is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)


def marked_socket(stream: StreamOffset, host: str, port: int) -> socket.socket:
    """A UDP socket that is connected to a listener, with the stream's marks. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        mark(sock, stream.dscp, stream.priority)
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock
