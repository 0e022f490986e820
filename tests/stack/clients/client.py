"""What every NETCONF client is asked to do; each request is here once as XML.

A client that has a call of its own for a request overrides the method, so that the override is the
proof that the call exists. The others send the XML as it stands.
"""

from __future__ import annotations

from typing import ClassVar

from lxml import etree

from tests.stack.front_end import BASE, INTERFACES, FrontEnd

MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"
NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"
NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"
WITH_DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"

# Where a test says what it wants to see: the interfaces of the tests or one of them.
ALL = f'<interfaces xmlns="{INTERFACES}"/>'


class Refused(Exception):
    """The server's reply is an error; holds its XML."""


class Client:
    """One session. `filter_` and `config` are the XML below <filter> and <config>."""

    NAME: str
    # What the client cannot do at all: row of the table to reason.
    CANNOT: ClassVar[dict[str, str]] = {}

    capabilities: set[str]
    session_id: int

    def __init__(self, server: FrontEnd, base_1_0_only: bool = False) -> None:
        raise NotImplementedError

    @classmethod
    def called_home(cls, server: FrontEnd, port: int) -> Client:
        """A session over the connection that the server opens to this port."""
        raise NotImplementedError

    def rpc(self, operation: str) -> etree._Element:
        """The <rpc-reply>. Raises Refused."""
        raise NotImplementedError

    def next_notification(self) -> etree._Element:
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether the server has closed the connection."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Let go of the connection, if it is there still."""
        raise NotImplementedError

    def get(self, filter_: str) -> etree._Element:
        return self.rpc(f"<get><filter>{filter_}</filter></get>")

    def get_config(self, source: str, filter_: str = ALL) -> etree._Element:
        return self.rpc(
            f"<get-config><source><{source}/></source><filter>{filter_}</filter></get-config>"
        )

    def get_config_by_xpath(self, source: str, path: str, prefix: str, ns: str) -> etree._Element:
        return self.rpc(
            f"<get-config><source><{source}/></source>"
            f'<filter type="xpath" xmlns:{prefix}="{ns}" select="{path}"/></get-config>'
        )

    def get_config_with_defaults(self, source: str, mode: str) -> etree._Element:
        return self.rpc(
            f"<get-config><source><{source}/></source><filter>{ALL}</filter>"
            f'<with-defaults xmlns="{WITH_DEFAULTS}">{mode}</with-defaults></get-config>'
        )

    def edit_config(self, config: str) -> None:
        self.rpc(
            f"<edit-config><target><candidate/></target><config>{config}</config></edit-config>"
        )

    def validate(self) -> None:
        self.rpc("<validate><source><candidate/></source></validate>")

    def discard_changes(self) -> None:
        self.rpc("<discard-changes/>")

    def commit(self) -> None:
        self.rpc("<commit/>")

    def commit_confirmed(self, persist: str) -> None:
        self.rpc(f"<commit><confirmed/><persist>{persist}</persist></commit>")

    def cancel_commit(self, persist_id: str) -> None:
        self.rpc(f"<cancel-commit><persist-id>{persist_id}</persist-id></cancel-commit>")

    def lock(self, target: str) -> None:
        self.rpc(f"<lock><target><{target}/></target></lock>")

    def unlock(self, target: str) -> None:
        self.rpc(f"<unlock><target><{target}/></target></unlock>")

    def copy_config(self, source: str, target: str) -> None:
        self.rpc(
            f"<copy-config><target><{target}/></target><source><{source}/></source></copy-config>"
        )

    def delete_config(self, target: str) -> None:
        self.rpc(f"<delete-config><target><{target}/></target></delete-config>")

    def kill_session(self, session_id: int) -> None:
        self.rpc(f"<kill-session><session-id>{session_id}</session-id></kill-session>")

    def close_session(self) -> None:
        self.rpc("<close-session/>")

    def get_schema(self, name: str) -> str:
        reply = self.rpc(
            f'<get-schema xmlns="{MONITORING}"><identifier>{name}</identifier></get-schema>'
        )
        return reply.findtext(f"{{{MONITORING}}}data")

    def create_subscription(self) -> None:
        self.rpc(f'<create-subscription xmlns="{NOTIFICATION}"/>')

    def get_data(self, datastore: str, filter_: str) -> etree._Element:
        return self.rpc(
            f'<get-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}">'
            f"<datastore>ds:{datastore}</datastore>"
            f"<subtree-filter>{filter_}</subtree-filter></get-data>"
        )

    def edit_data(self, config: str) -> None:
        self.rpc(
            f'<edit-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}">'
            f"<datastore>ds:candidate</datastore><config>{config}</config></edit-data>"
        )


def rpc_message(operation: str, message_id: int) -> str:
    """The <rpc> around an operation."""
    return f'<rpc xmlns="{BASE}" message-id="{message_id}">{operation}</rpc>'
