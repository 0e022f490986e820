"""The UNI over NETCONF: `tsn-netconfd` before `cnc serve`, with rehearsed switches behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import yaml
from lxml import etree
from ncclient.operations import RPCError
from ncclient.transport.errors import AuthenticationError, SessionCloseError, SSHError

from cnc.service.netconf.limits import LIMITS
from tests.stack.lab_user import User
from tests.stack.netconf_client import BASE, ask, errors
from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.test_service import LINE3, ROLLOUT_LIMIT_S, START_LIMIT_S, Service
from tests.unit.uni_bodies import STREAM_ID, mac

UNI = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-cnc-config"
OURS = "urn:tsn-control-plane:yang:tsn-cnc"
OTHER_ID = "02-00-00-00-01-01:00-02"


class Backed(NetconfdProcess):
    """A server whose backend is a service; `keys` has the key file of each user."""

    def __init__(self, directory: Path, backend: Path) -> None:
        super().__init__(directory)
        self.state_options = ["--broker", str(backend)]
        self.authorized_keys = directory / "none" / "%u"  # those of tokens alone
        self._directory = directory

    def key_of(self, user: str) -> Path:
        path = self._directory / user
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            key.write_private_key(str(path))
            path.chmod(0o600)
            key.write_public_key(f"{path}.pub")
        return path

    def session(self, user: str) -> Any:
        return self.connect(username=user, key_filename=str(self.key_of(user)))


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    here = User(tmp_path_factory.mktemp("home"))
    document = yaml.safe_load(LINE3.read_text())
    stations = enumerate(document["end-stations"], 1)
    document["end-stations"] = {
        name: {"mac": mac(number).replace("-", ":").lower()} for number, name in stations
    }
    (here.home / "line3.yaml").write_text(yaml.safe_dump(document))
    here.up(here.home / "line3.yaml")
    yield here
    here.does("lab", "down")


@pytest.fixture(scope="module")
def service(user: User) -> Iterator[Service]:
    directory = user.home / "cnc"
    directory.mkdir(mode=0o700)
    backend = directory / "backend"
    its = Service(user, directory, user.home / "line3.yaml", ("--netconf-socket", backend))
    its.start()
    assert wait_until(backend.exists, START_LIMIT_S), its.log
    # These tests ask as fast as they can.
    for cuc in ("plc", "hmi"):
        its.call("quota.set", {"cuc": cuc, "requests_per_minute": 1_000_000})
    yield its
    its.stop()


@pytest.fixture(scope="module")
def server(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backed]:
    its = Backed(tmp_path_factory.mktemp("netconfd"), service.directory / "backend")
    for name, *role in (("plc-1", "cuc", "plc"), ("hmi-1", "cuc", "hmi"), ("jo", "operator")):
        add_token(service, its, name, *role)
    its.start()
    yield its
    its.stop()


def add_token(service: Service, server: Backed, name: str, role: str, cuc: str = "") -> None:
    words = ("--role", role, *(("--cuc", cuc) if cuc else ()))
    key = Path(f"{server.key_of(name)}.pub")
    where = ("--state-dir", service.directory)
    service.user.does("token", "add", name, *words, "--ssh-key", key, *where)


@pytest.fixture
def plc(server: Backed, service: Service) -> Iterator[Any]:
    """A session of the CUC `plc`, which has no streams."""
    with server.session("plc-1") as session:
        yield session
        cuc = f'<cuc xmlns:nc="{BASE}" nc:operation="remove"><cuc-id>plc</cuc-id></cuc>'
        edit(session, cuc)


def edit(session: Any, content: str, **options: Any) -> None:
    config = (
        f'<config xmlns="{BASE}"><cnc-config xmlns="{UNI}"><domain><domain-id>line3</domain-id>'
        f"{content}</domain></cnc-config></config>"
    )
    session.edit_config(target="running", config=config, **options)


def stream(stream_id: str = STREAM_ID, max_latency: int = 200_000, cuc: str = "plc") -> str:
    """A stream of t1 for l1, in its CUC."""
    return f"""<cuc><cuc-id>{cuc}</cuc-id><stream><stream-id>{stream_id}</stream-id>
      <talker>
        <end-station-interfaces><mac-address>{mac(1)}</mac-address><interface-name/>
        </end-station-interfaces>
        <data-frame-specification><index>0</index><ipv4-tuple>
          <destination-ip-address>192.0.2.4</destination-ip-address><dscp>46</dscp>
        </ipv4-tuple></data-frame-specification>
        <traffic-specification>
          <interval><numerator>1</numerator><denominator>1000</denominator></interval>
          <max-frames-per-interval>1</max-frames-per-interval>
          <max-frame-size>100</max-frame-size><time-aware/>
        </traffic-specification>
        <user-to-network-requirements><max-latency>{max_latency}</max-latency>
        </user-to-network-requirements>
      </talker>
      <listener><index>0</index>
        <end-station-interfaces><mac-address>{mac(3)}</mac-address><interface-name/>
        </end-station-interfaces>
      </listener>
    </stream></cuc>"""


def removal(stream_id: str, operation: str = "delete", cuc: str = "plc") -> str:
    return (
        f'<cuc><cuc-id>{cuc}</cuc-id><stream xmlns:nc="{BASE}" nc:operation="{operation}">'
        f"<stream-id>{stream_id}</stream-id></stream></cuc>"
    )


def shown(session: Any, path: str, *, config_only: bool = False) -> list[str]:
    """The texts of what a path selects of the whole tree."""
    data = (session.get_config("running") if config_only else session.get()).data_ele
    return [each.text for each in data.xpath(path, namespaces={"uni": UNI, "cnc": OURS})]


def rpc(name: str, content: str = "") -> str:
    return f'<{name} xmlns="{UNI}">{content}</{name}>'


def result(session: Any, operation: str) -> str:
    reply = ask(session, operation)
    assert not errors(reply), etree.tostring(reply)
    return str(reply.findtext(f"{{{UNI}}}result"))


def test_a_stream_that_is_put_runs_on_the_switches_until_it_is_deleted(
    plc: Any, service: Service
) -> None:
    edit(plc, stream())
    assert shown(plc, "//uni:stream/uni:stream-id") == [STREAM_ID]
    (latency,) = shown(plc, "//uni:listener//uni:accumulated-latency")
    assert 0 < int(latency) <= 200_000
    assert shown(plc, "//uni:accumulated-latency", config_only=True) == []

    asked = {"cuc": "plc", "stream_id": STREAM_ID}

    def is_configured() -> bool:
        return service.call("stream.get", asked)["state"] == "configured"

    assert wait_until(is_configured, ROLLOUT_LIMIT_S), service.log
    assert shown(plc, "//uni:stream-status") == ["configured"]
    assert shown(plc, "//uni:talker-status") == ["ready"]
    name = f"plc__{STREAM_ID.replace(':', '_')}"
    assert name in service.call("document.get", {"name": "plan"})["streams"]
    assert all(port["agrees"] for port in service.status())

    edit(plc, removal(STREAM_ID))
    assert shown(plc, "//uni:stream-id") == []
    assert name not in service.call("document.get", {"name": "plan"})["streams"]

    def is_removed() -> bool:
        events = service.call("document.get", {"name": "events"})["events"]
        return "stream-removed" in [each["kind"] for each in events]

    assert wait_until(is_removed, ROLLOUT_LIMIT_S), service.log
    assert all(port["agrees"] for port in service.status())


def test_a_filter_selects_streams_by_their_id(plc: Any) -> None:
    for each in (STREAM_ID, OTHER_ID):
        edit(plc, stream(each))
    wanted = (
        f'<cnc-config xmlns="{UNI}"><domain><cuc><stream><stream-id>{OTHER_ID}</stream-id>'
        "</stream></cuc></domain></cnc-config>"
    )
    xpath = f"/ieee802-dot1q-cnc-config:cnc-config//stream[stream-id='{OTHER_ID}']"
    for filter_ in (("subtree", wanted), ("xpath", xpath)):
        found = plc.get(filter=filter_).data_ele
        assert [each.text for each in found.iter(f"{{{UNI}}}stream-id")] == [OTHER_ID]


def test_a_stream_without_a_place_is_refused_with_its_code_and_the_reason(plc: Any) -> None:
    with pytest.raises(RPCError) as refused:
        edit(plc, stream(max_latency=1))
    assert refused.value.tag == "operation-failed"
    assert refused.value.app_tag == "failure-code-21"
    assert "of a frame would have to be there" in refused.value.message
    assert shown(plc, "//uni:stream-id") == []


def test_the_streams_of_another_cuc_are_neither_seen_nor_touched(plc: Any, server: Backed) -> None:
    edit(plc, stream())
    with server.session("hmi-1") as hmi:
        assert shown(hmi, "//uni:stream-id") == []
        for content in (removal(STREAM_ID), stream(max_latency=300_000)):
            with pytest.raises(RPCError) as refused:
                edit(hmi, content)
            assert refused.value.tag == "access-denied"
            assert "token hmi-1 is for the CUC hmi alone" in refused.value.message
        action = removing(STREAM_ID)
        (error,) = errors(ask(hmi, action))
        assert error.findtext(f"{{{BASE}}}error-tag") == "access-denied"
    assert shown(plc, "//uni:max-latency") == ["200000"]


def removing(*ids: str) -> str:
    listed = "".join(f"<stream-list><stream-id>{each}</stream-id></stream-list>" for each in ids)
    return (
        f'<action xmlns="urn:ietf:params:xml:ns:yang:1"><cnc-config xmlns="{UNI}"><domain>'
        f"<domain-id>line3</domain-id><cuc><cuc-id>plc</cuc-id><remove_streams>{listed}"
        "</remove_streams></cuc></domain></cnc-config></action>"
    )


def test_the_operations_of_the_module_place_name_and_remove_streams(
    plc: Any, server: Backed
) -> None:
    cuc = "<cuc-id>plc</cuc-id>"
    domain = "<domain><domain-id>line3</domain-id><cuc>{}</cuc></domain>"
    assert result(plc, rpc("request_domain_id", cuc)) == "line3"
    assert result(plc, rpc("request_free_stream_id", cuc)).endswith(":00-01")
    with server.session("jo") as operator:
        switch = '<auto-compute xmlns="{}"{}>false</auto-compute>'
        edit(operator, switch.format(OURS, ""))
        try:
            for each in (STREAM_ID, OTHER_ID):
                edit(plc, stream(each))
            assert shown(plc, "//uni:accumulated-latency") == []
            asked = rpc("compute_all_streams", domain.format(cuc))
            assert result(plc, asked) == "success"
            assert len(shown(plc, "//uni:listener//uni:accumulated-latency")) == 2
        finally:
            deleted = f' xmlns:nc="{BASE}" nc:operation="delete"'
            edit(operator, switch.format(OURS, deleted))
        assert shown(operator, "//cnc:auto-compute") == ["true"]
    assert result(plc, removing(STREAM_ID, OTHER_ID)) == "success"
    assert shown(plc, "//uni:stream-id") == []
    (error,) = errors(ask(plc, removing(STREAM_ID)))
    assert error.findtext(f"{{{BASE}}}error-tag") == "invalid-value"


def test_what_this_server_does_not_support_is_neither_announced_nor_done(plc: Any) -> None:
    announced = " ".join(plc.server_capabilities)
    assert ":writable-running:1.0" in announced
    assert ":rollback-on-error:1.0" in announced
    assert "candidate" not in announced
    for operation in (
        "<commit/>",
        "<lock><target><running/></target></lock>",
        "<copy-config><target><running/></target><source><running/></source></copy-config>",
    ):
        (error,) = errors(ask(plc, operation))
        found = error.findtext(f"{{{BASE}}}error-tag")
        assert found in {"operation-not-supported", "invalid-value"}, etree.tostring(error)


def test_a_user_has_a_number_of_sessions(server: Backed, service: Service) -> None:
    sessions = [server.session("jo") for _ in range(LIMITS["max-sessions-per-user"])]
    try:
        with pytest.raises((SSHError, SessionCloseError, OSError)), server.session("jo"):
            pass
        with server.session("hmi-1") as other:
            assert shown(other, "//uni:domain-id") == ["line3"]
        assert "user jo has 16 sessions open" in service.log
    finally:
        for each in sessions:
            each.close_session()
    with server.session("jo") as again:
        assert shown(again, "//uni:domain-id") == ["line3"]


def test_a_key_opens_for_its_token_alone_and_for_as_long_as_that_is_good(
    server: Backed, service: Service
) -> None:
    add_token(service, server, "gone", "cuc", "plc")
    with pytest.raises(AuthenticationError):
        server.connect(username="jo", key_filename=str(server.key_of("gone")))
    with server.session("gone") as session:
        assert shown(session, "//uni:domain-id") == ["line3"]
        service.user.does("token", "revoke", "gone", "--state-dir", service.directory)
        with pytest.raises(RPCError) as refused:
            session.get()
        assert refused.value.tag == "access-denied"
        assert "no valid token gone" in refused.value.message
    with pytest.raises(AuthenticationError):
        server.session("gone")
