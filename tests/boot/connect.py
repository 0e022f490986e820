"""Connects to a TCP port of 127.0.0.1 and hands the connection to ssh.

A ProxyCommand for ssh_config(5) with ProxyUseFdpass: ssh passes a socket as standard output, and
goes on with the descriptor that it receives there. Run in the network namespace of a container.
"""

import socket
import sys

if __name__ == "__main__":
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    with socket.socket(fileno=sys.stdout.fileno()) as to_ssh:
        socket.send_fds(to_ssh, [b"\0"], [connection.fileno()])
