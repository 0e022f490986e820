"""ncclient, through its own calls wherever it has one."""

from __future__ import annotations

from lxml import etree
from ncclient import manager
from ncclient.devices.default import DefaultDeviceHandler
from ncclient.operations import RPCError
from ncclient.xml_ import to_ele

from tests.stack.clients.client import ALL, Client, Refused
from tests.stack.front_end import BASE, REPLY_TIMEOUT_S

BASE_1_0 = "urn:ietf:params:netconf:base:1.0"


class OldHandler(DefaultDeviceHandler):
    """Offers base:1.0 alone, as clients older than RFC 6241 did."""

    _BASE_CAPABILITIES = (BASE_1_0,)

    def get_capabilities(self):
        return [*self._BASE_CAPABILITIES]


class Ncclient(Client):
    NAME = "ncclient"

    def __init__(self, server, base_1_0_only=False):
        options = {"device_params": {"handler": OldHandler}} if base_1_0_only else {}
        self._use(server.connect(**options))

    @classmethod
    def called_home(cls, server, port):
        client = cls.__new__(cls)
        client._use(
            manager.call_home(
                host=server.host,
                port=port,
                username=server.username,
                key_filename=str(server.client_key),
                hostkey_b64=server.host_key_b64,
                allow_agent=False,
                look_for_keys=False,
                timeout=REPLY_TIMEOUT_S,
            )
        )
        return client

    def _use(self, session):
        self._manager = session
        self.capabilities = set(session.server_capabilities)
        self.session_id = int(session.session_id)

    def _ask(self, call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except RPCError as error:
            raise Refused(str(error)) from error

    def _data(self, call, *args, **kwargs):
        return self._ask(call, *args, **kwargs).data

    def rpc(self, operation):
        return etree.fromstring(self._ask(self._manager.dispatch, to_ele(operation)).xml.encode())

    def next_notification(self):
        notification = self._manager.take_notification(timeout=REPLY_TIMEOUT_S)
        assert notification is not None, "no notification came"
        return notification.notification_ele

    @property
    def ended(self):
        return not self._manager.connected

    def disconnect(self):
        if self._manager.connected:
            self._manager.close_session()

    def get(self, filter_):
        return self._data(self._manager.get, filter=("subtree", filter_))

    def get_config(self, source, filter_=ALL):
        return self._data(self._manager.get_config, source, filter=("subtree", filter_))

    def get_config_by_xpath(self, source, path, prefix, ns):
        filter_ = ("xpath", ({prefix: ns}, path))
        return self._data(self._manager.get_config, source, filter=filter_)

    def get_config_with_defaults(self, source, mode):
        return self._data(
            self._manager.get_config, source, filter=("subtree", ALL), with_defaults=mode
        )

    def edit_config(self, config):
        wrapped = f'<config xmlns="{BASE}">{config}</config>'
        self._ask(self._manager.edit_config, target="candidate", config=wrapped)

    def validate(self):
        self._ask(self._manager.validate, "candidate")

    def discard_changes(self):
        self._ask(self._manager.discard_changes)

    def commit(self):
        self._ask(self._manager.commit)

    def commit_confirmed(self, persist):
        self._ask(self._manager.commit, confirmed=True, persist=persist)

    def cancel_commit(self, persist_id):
        self._ask(self._manager.cancel_commit, persist_id=persist_id)

    def lock(self, target):
        self._ask(self._manager.lock, target)

    def unlock(self, target):
        self._ask(self._manager.unlock, target)

    def copy_config(self, source, target):
        self._ask(self._manager.copy_config, source=source, target=target)

    def delete_config(self, target):
        self._ask(self._manager.delete_config, target)

    def kill_session(self, session_id):
        self._ask(self._manager.kill_session, str(session_id))

    def close_session(self):
        self._ask(self._manager.close_session)

    def get_schema(self, name):
        return self._data(self._manager.get_schema, name)

    def create_subscription(self):
        self._ask(self._manager.create_subscription)
