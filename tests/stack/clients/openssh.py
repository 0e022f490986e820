"""`ssh -s HOST netconf`: the octets of both framings, as written by hand."""

from __future__ import annotations

import os
import select
import subprocess
from typing import ClassVar

from lxml import etree

from tests.stack.clients.client import Client, Refused, rpc_message
from tests.stack.front_end import BASE, REPLY_TIMEOUT_S

END = b"]]>]]>"
BASE_1_0 = "urn:ietf:params:netconf:base:1.0"
BASE_1_1 = "urn:ietf:params:netconf:base:1.1"


class OpenSsh(Client):
    NAME = "OpenSSH"
    CANNOT: ClassVar = {"call home": "does not listen for connections"}

    def __init__(self, server, base_1_0_only=False):
        known_hosts = server.client_key.with_name("known_hosts")
        known_hosts.write_text(
            f"[{server.host}]:{server.port} {server.host_key_type} {server.host_key_b64}\n"
        )
        self._ssh = subprocess.Popen(
            [
                *("ssh", "-F", "none", "-p", str(server.port), "-i", server.client_key),
                *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"),
                *("-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known_hosts}"),
                *("-l", server.username, "-s", server.host, "netconf"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._received = b""
        self._chunked = False
        self._message_id = 0
        self._notifications = []
        bases = [BASE_1_0] if base_1_0_only else [BASE_1_0, BASE_1_1]
        offered = "".join(f"<capability>{base}</capability>" for base in bases)
        self._send(f'<hello xmlns="{BASE}"><capabilities>{offered}</capabilities></hello>'.encode())
        hello = etree.fromstring(self._receive())
        self.capabilities = {each.text for each in hello.iter(f"{{{BASE}}}capability")}
        self.session_id = int(hello.findtext(f"{{{BASE}}}session-id"))
        self._chunked = BASE_1_1 in bases and BASE_1_1 in self.capabilities

    def rpc(self, operation):
        self._message_id += 1
        self._send(rpc_message(operation, self._message_id).encode())
        reply = etree.fromstring(self._receive())
        while reply.get("message-id") != str(self._message_id):
            self._notifications.append(reply)
            reply = etree.fromstring(self._receive())
        if reply.find(f"{{{BASE}}}rpc-error") is not None:
            raise Refused(etree.tostring(reply, encoding="unicode"))
        return reply

    def next_notification(self):
        return (
            self._notifications.pop(0) if self._notifications else etree.fromstring(self._receive())
        )

    @property
    def ended(self):
        return self._ssh.poll() is not None

    def disconnect(self):
        self._ssh.stdin.close()
        self._ssh.stdout.close()
        self._ssh.terminate()
        self._ssh.wait(REPLY_TIMEOUT_S)

    def _send(self, message):
        framed = b"\n#%d\n%s\n##\n" % (len(message), message) if self._chunked else message + END
        self._ssh.stdin.write(framed)

    def _receive(self):
        if not self._chunked:
            return self._until(END)
        message = b""
        while True:
            assert self._exactly(2) == b"\n#"
            header = self._until(b"\n")
            if header == b"#":
                return message
            message += self._exactly(int(header))

    def _until(self, end):
        while end not in self._received:
            self._read_more()
        found, _, self._received = self._received.partition(end)
        return found

    def _exactly(self, octets):
        while len(self._received) < octets:
            self._read_more()
        found, self._received = self._received[:octets], self._received[octets:]
        return found

    def _read_more(self):
        ready, _, _ = select.select([self._ssh.stdout], [], [], REPLY_TIMEOUT_S)
        assert ready, "the server says nothing"
        data = os.read(self._ssh.stdout.fileno(), 65_536)
        if not data:
            raise ConnectionError("the connection ended")
        self._received += data
