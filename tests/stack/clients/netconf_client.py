"""netconf-client, through its own calls wherever it has one."""

from __future__ import annotations

from typing import ClassVar

from lxml import etree
from netconf_client.connect import CallhomeManager, connect_ssh
from netconf_client.error import RpcError
from netconf_client.ncclient import Manager

from tests.stack.clients.client import ALL, NMDA, Client, Refused
from tests.stack.front_end import BASE, REPLY_TIMEOUT_S


class NetconfClient(Client):
    NAME = "netconf-client"
    CANNOT: ClassVar = {
        "host key checked": "takes the key it should expect and does not compare it",
        "hello, base:1.0 alone": "its hello always offers base:1.1 too",
    }

    def __init__(self, server, base_1_0_only=False):
        assert not base_1_0_only
        self._use(connect_ssh(server.host, server.port, **_login(server)))

    @classmethod
    def called_home(cls, server, port):
        client = cls.__new__(cls)
        with CallhomeManager(bind_to=server.host, port=port) as listener:
            client._use(listener.accept_one_ssh(**_login(server)))
        return client

    def _use(self, session):
        self._session = session
        self._manager = Manager(session, timeout=REPLY_TIMEOUT_S)
        self.capabilities = set(session.server_capabilities)
        self.session_id = session.session_id

    def _ask(self, call, *args, **kwargs):
        try:
            return call(*args, **kwargs)
        except RpcError as error:
            raise Refused(str(error)) from error

    def _data(self, call, *args, **kwargs):
        return self._ask(call, *args, **kwargs).data_ele

    def rpc(self, operation):
        return etree.fromstring(self._ask(self._manager.dispatch, operation).xml)

    def next_notification(self):
        notification = self._manager.take_notification(timeout=REPLY_TIMEOUT_S)
        assert notification is not None, "no notification came"
        return notification.notification_ele

    @property
    def ended(self):
        return not self._session.thread.is_alive()

    def disconnect(self):
        self._session.close()

    def get(self, filter_):
        return self._data(self._manager.get, filter=("subtree", filter_))

    def get_config(self, source, filter_=ALL):
        return self._data(self._manager.get_config, source, filter=("subtree", filter_))

    def get_config_by_xpath(self, source, path, prefix, ns):
        filter_ = f'<filter type="xpath" xmlns:{prefix}="{ns}" select="{path}"/>'
        return self._data(self._manager.get_config, source, filter=filter_)

    def get_config_with_defaults(self, source, mode):
        return self._data(
            self._manager.get_config, source, filter=("subtree", ALL), with_defaults=mode
        )

    def edit_config(self, config):
        wrapped = f'<config xmlns="{BASE}">{config}</config>'
        self._ask(self._manager.edit_config, wrapped, target="candidate")

    def validate(self):
        self._ask(self._manager.validate, "candidate")

    def discard_changes(self):
        self._ask(self._manager.discard_changes)

    def commit(self):
        self._ask(self._manager.commit)

    def commit_confirmed(self, persist):
        self._ask(self._manager.commit, confirmed=True, persist=persist)

    def cancel_commit(self, persist_id):
        self._ask(self._manager.cancel_commit, persist_id)

    def lock(self, target):
        self._ask(self._manager.lock, target)

    def unlock(self, target):
        self._ask(self._manager.unlock, target)

    def copy_config(self, source, target):
        self._ask(self._manager.copy_config, target=target, source=source)

    def delete_config(self, target):
        self._ask(self._manager.delete_config, target)

    def kill_session(self, session_id):
        self._ask(self._manager.kill_session, session_id)

    def close_session(self):
        self._ask(self._manager.close_session)

    def create_subscription(self):
        self._ask(self._manager.create_subscription)

    def get_data(self, datastore, filter_):
        filter_ = f'<subtree-filter xmlns="{NMDA}">{filter_}</subtree-filter>'
        return self._data(self._manager.get_data, datastore=f"ds:{datastore}", filter=filter_)


def _login(server):
    return {
        "username": server.username,
        "key_filename": str(server.client_key),
        "hostkey_b64": server.host_key_b64,
        "initial_timeout": REPLY_TIMEOUT_S,
    }
