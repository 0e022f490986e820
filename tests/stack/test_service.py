"""`cnc serve` as a process, with switches that answer over NETCONF."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import app, rollout
from cnc.rollout import Met
from cnc.service.channel import connected
from cnc.service.process import ADMIN_TOKEN, SOCKET
from cnc.service.refused import CallRefused, Code
from cnc.switch import ConnectOptions
from tests.stack.lab_user import CHECKOUT, User
from tests.stack.netconfd_process import wait_until
from tests.stack.service_that_dies import MOMENTS

LINE3 = CHECKOUT / "schedules/line3.yaml"
DYING = CHECKOUT / "tests/stack/service_that_dies.py"
START_LIMIT_S, ROLLOUT_LIMIT_S = 60.0, 120.0
DISK_OCTETS = 32 * 2**20
STREAM = {"cuc": "plc", "stream_id": "00-1B-21-00-00-01:00-01"}
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICs3Mp1FyVdTuyhJlqbRq3Aqdq1fEwqvu3yFW1VrS3Zy"
NAME = "plc__00-1B-21-00-00-01_00-01"
KEYS = {
    "talker": "t1",
    "listeners": ["l1"],
    "class": "cyclic",
    "period": "1ms",
    "payload": "200B",
    "max-latency": "200us",
}


class Service:
    """`cnc serve` of a network in a directory, as often as it is started."""

    def __init__(
        self, user: User, directory: Path, intent: Path = LINE3, options: Sequence[object] = ()
    ) -> None:
        self.user, self.directory = user, directory
        self._intent, self._options = intent, options
        self._running: subprocess.Popen[str] | None = None

    def start(self, *, dies_at: str | None = None) -> None:
        """Without workers; it answers when this returns, or has died as told."""
        program = (DYING, dies_at, "cnc") if dies_at else ("-m", "cnc")
        argv, environment = self.user.python(
            *(*program, "serve", self._intent, "--workers", 0),
            *("--state-dir", self.directory, *self._options),
        )
        log = (self.directory / "serve.log").open("a")
        (self.directory / SOCKET).unlink(missing_ok=True)
        path = [str(CHECKOUT), environment["PYTHONPATH"]]
        environment["PYTHONPATH"] = ":".join(filter(None, path))
        self._running = subprocess.Popen(
            argv, env=environment, cwd=CHECKOUT, stdout=log, stderr=log, text=True
        )
        assert wait_until(self._has_begun, START_LIMIT_S), self.log
        assert dies_at or self._running.poll() is None, self.log

    def _has_begun(self) -> bool:
        return (self.directory / SOCKET).exists() or self._running.poll() is not None

    def died(self) -> bool:
        """Whether it was killed, once it has ended."""
        try:
            return self._running.wait(ROLLOUT_LIMIT_S) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def stop(self) -> int:
        """Its exit code at SIGTERM."""
        if self._running is None:
            return 0
        self._running.terminate()
        code = self._running.wait(ROLLOUT_LIMIT_S)
        self._running = None
        return code

    def call(self, call: str, arguments: Any = None) -> Any:
        token = (self.directory / ADMIN_TOKEN).read_text().strip()

        async def ask() -> Any:
            async with connected(self.directory / SOCKET) as channel:
                return await channel.call(call, arguments or {}, token=token, source="test")

        return asyncio.run(asyncio.wait_for(ask(), 30))

    def put(self) -> Any:
        body = {"intent": KEYS}
        return self.call("stream.put", {**STREAM, "body": body, "idempotency_key": "once"})

    def until_configured(self) -> Any:
        def configured() -> Any:
            found = self.call("stream.get", STREAM)
            return found if found["state"] == "configured" else None

        found = wait_until(configured, ROLLOUT_LIMIT_S)
        assert found, f"{self.call('stream.get', STREAM)}\n{self.log}"
        return found

    def rollouts(self) -> list[dict[str, Any]]:
        return json.loads(self.user.does("history", "--json", "--state-dir", self.directory))

    def status(self) -> list[dict[str, Any]]:
        """What the switches run, as they say, compared with the plan of the last rollout."""
        last = next(its["number"] for its in self.rollouts() if its["phase"] == "done")
        said = self.user.cnc("status", last, "--json", "--state-dir", self.directory)
        return json.loads(said.stdout)

    @property
    def log(self) -> str:
        return (self.directory / "serve.log").read_text()


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    here = User(tmp_path_factory.mktemp("home"))
    here.up(LINE3)
    yield here
    here.does("lab", "down")


@pytest.fixture(scope="module")
def service(user: User) -> Iterator[Service]:
    directory = user.home / "cnc"
    directory.mkdir(mode=0o700)
    user.does("push", LINE3, "--state-dir", directory)  # before there is a service
    its = Service(user, directory)
    its.start()
    yield its
    its.stop()


def test_switches_that_run_the_plan_already_hear_who_acts_for_them(service: Service) -> None:
    keys = service.user.keys
    connect = ConnectOptions(Path(keys["CNC_IDENTITY"]), Path(keys["CNC_KNOWN_HOSTS"]), 30.0)
    switches = app.load_intent(LINE3).network.managed.values()

    def told() -> bool:
        met = rollout.meet(switches, connect=connect).values()
        return all(isinstance(its, Met) and its.term and its.term.term == 1 for its in met)

    assert wait_until(told, ROLLOUT_LIMIT_S), service.log
    assert len(service.rollouts()) == 1


def test_a_stream_is_put_and_runs_on_the_switches(service: Service) -> None:
    assert stat.S_IMODE((service.directory / SOCKET).stat().st_mode) == 0o600
    assert stat.S_IMODE((service.directory / ADMIN_TOKEN).stat().st_mode) == 0o600
    put = service.put()
    assert (put["created"], put["placed"]) == (True, True)
    found = service.until_configured()
    assert found["rollout"] == service.rollouts()[0]["number"]
    assert all(port["agrees"] for port in service.status())
    on_the_way = {f"{hop[0]}/{hop[1]}" for hop in paths(service, NAME)}
    gated = {port["port"]: port for port in service.status() if port["running"]}
    assert on_the_way & gated.keys()
    events = service.call("document.get", {"name": "events"})["events"]
    placed = next(its for its in events if its["kind"] == "stream-placed")
    done = next(
        its for its in events if its["number"] > placed["number"] and "running_since" in its
    )
    assert done["rollout"] == found["rollout"]
    assert placed["time"] < done["running_since"] < done["time"]


def test_a_rollback_runs_a_former_intent_beside_the_streams_of_cucs(service: Service) -> None:
    document = yaml.safe_load(LINE3.read_text())
    del document["streams"]["valves"]
    put = {"file": "other.yaml", "text": yaml.safe_dump(document)}
    until_runs(service, service.call("intent.put", put))
    without = service.rollouts()[0]["number"]
    until_runs(service, service.call("rollback", {"number": 1}))
    plan = service.call("document.get", {"name": "plan"})
    assert {"valves", NAME} <= plan["streams"].keys()
    assert service.rollouts()[0]["number"] == without + 1
    assert all(port["agrees"] for port in service.status())


def until_runs(service: Service, answer: dict[str, Any]) -> None:
    """Until the switches run what an operator has put."""

    def done() -> bool:
        asked = {"name": "events", "after": answer["after"]}
        events = service.call("document.get", asked)["events"]
        return any(event["kind"] == "rollout-done" for event in events)

    assert wait_until(done, ROLLOUT_LIMIT_S), service.log


def paths(service: Service, name: str) -> list[list[Any]]:
    (path,) = service.call("document.get", {"name": "plan"})["streams"][name]["paths"]
    return path


def test_a_laptops_push_to_a_network_that_a_service_owns_is_refused(service: Service) -> None:
    pushed = service.user.cnc("push", LINE3)  # with a history of its own
    assert pushed.returncode == 1
    assert "comes from a rollout that is not in this history" in pushed.stderr
    assert "service" in service.rollouts()[0]["what"]


def test_a_second_service_in_one_directory_is_refused(service: Service) -> None:
    done = service.user.cnc("serve", LINE3, "--workers", 0, "--state-dir", service.directory)
    assert done.returncode == 1
    assert "another service runs with this directory" in done.stderr


def test_tokens_are_made_listed_rotated_and_revoked(service: Service) -> None:
    does, where = service.user.does, ("--state-dir", service.directory)
    made = does("token", "add", "cell-1", "--role", "cuc", "--cuc", "plc", *where).strip()

    def get(token: str) -> Any:
        async def ask() -> Any:
            async with connected(service.directory / SOCKET) as channel:
                return await channel.call("who", token=token)

        return asyncio.run(ask())

    assert get(made)["cuc"] == "plc"
    other = does("token", "rotate", "cell-1", *where).strip()
    assert get(other) == get(made) | {"expires": get(other)["expires"]}
    key = service.directory / "id_ed25519.pub"
    key.write_text(PUBLIC_KEY)
    said = does("token", "key", "cell-1", "--ssh-key", key, *where).strip()
    assert said == "cell-1: SHA256:0imacVU+3/kFz7swEzWX1es8JRXddMyYkO9w3jP/UP8"
    assert said.split()[1] in does("token", "list", *where)
    assert "no SSH key" in does("token", "key", "cell-1", "--remove", *where)
    assert "SHA256" not in does("token", "list", *where)
    does("token", "revoke", "cell-1", *where)
    for each in (made, other):
        with pytest.raises(CallRefused) as refused:
            get(each)
        assert refused.value.code is Code.UNAUTHENTICATED
    assert "cell-1" in does("token", "list", *where)
    assert made not in does("token", "list", "--json", *where)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_request_is_done_once_whenever_the_service_is_killed(
    service: Service, moment: str
) -> None:
    if is_there(service):
        service.call("stream.delete", STREAM)
    assert wait_until(lambda: is_settled(service), ROLLOUT_LIMIT_S), service.log
    assert service.stop() == 0, service.log
    before = service.rollouts()[0]["number"]
    service.start(dies_at=moment)
    put = {**STREAM, "body": {"intent": KEYS}, "idempotency_key": f"at {moment}"}
    answered = answer_or_none(service, put)
    assert service.died(), service.log
    service.start()
    if answered:
        assert service.call("stream.get", STREAM)["etag"] == answered["etag"]
    again = service.call("stream.put", put)
    if answered:
        assert again == answered
    found = service.until_configured()
    assert found["etag"] == again["etag"]
    assert NAME in service.call("document.get", {"name": "plan"})["streams"]
    assert all(port["agrees"] for port in service.status())
    later = [its for its in service.rollouts() if its["number"] > before]
    done = [its["number"] for its in later if its["phase"] == "done"]
    assert done == [found["rollout"]], later
    kinds = [
        event["kind"]
        for event in service.call("document.get", {"name": "events"})["events"]
        if event.get("stream_id") == STREAM["stream_id"]
    ]
    assert kinds[-2:] == ["stream-placed", "stream-configured"]


def answer_or_none(service: Service, put: Any) -> Any:
    """What is answered by a service that may die before it answers."""
    try:
        return service.call("stream.put", put)
    except CallRefused as refused:
        if refused.code is not Code.UNAVAILABLE:
            raise
        return None


def is_there(service: Service) -> bool:
    try:
        service.call("stream.get", STREAM)
    except CallRefused:
        return False
    return True


def is_settled(service: Service) -> bool:
    """Whether the switches run what was decided, without the stream."""
    events = service.call("document.get", {"name": "events"})["events"]
    of_stream = [each["kind"] for each in events if each.get("stream_id") == STREAM["stream_id"]]
    is_gone = not of_stream or of_stream[-1] == "stream-removed"
    return is_gone and bool(events) and events[-1]["kind"] == "rollout-done"


@pytest.fixture
def small_disk(service: Service) -> Iterator[Path]:
    """The state of the service is on a disk of its own, while a test runs."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk of its own")
    directory, kept = service.directory, service.directory.with_name("kept")
    assert service.stop() == 0, service.log
    shutil.copytree(directory, kept)
    options = f"size={DISK_OCTETS},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cnc-test", directory], check=True)
    try:
        shutil.copytree(kept, directory, dirs_exist_ok=True)
        service.start()
        yield directory
        assert service.stop() == 0, service.log
        shutil.rmtree(kept)
        shutil.copytree(directory, kept)
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
    shutil.copytree(kept, directory, dirs_exist_ok=True)
    service.start()


def test_a_full_disk_refuses_what_cannot_be_kept_and_with_room_all_goes_on(
    service: Service, small_disk: Path
) -> None:
    def put(number: int) -> Any:
        body = {"intent": {**KEYS, "payload": f"{200 + number % 2}B"}}
        asked = {**STREAM, "body": body, "idempotency_key": f"put {number}"}
        return service.call("stream.put", asked)

    accepted = [put(0)]

    def refused() -> CallRefused | None:
        try:
            accepted.append(put(len(accepted)))
        except CallRefused as found:
            return found
        return None

    filling = small_disk / "filling"
    with filling.open("wb") as file:
        zeros = ["head", f"--bytes={DISK_OCTETS}", "/dev/zero"]
        subprocess.run(zeros, stdout=file, stderr=subprocess.DEVNULL, check=False)
    found = wait_until(refused, ROLLOUT_LIMIT_S)
    assert (found.code, "database or disk is full" in str(found)) == (Code.UNAVAILABLE, True), found
    assert service.call("stream.get", STREAM)["etag"] == accepted[-1]["etag"]
    filling.unlink()
    again = put(len(accepted))
    assert again["etag"] != accepted[-1]["etag"]
    assert service.until_configured()["etag"] == again["etag"]
    assert service.stop() == 0, service.log
    service.start()
    assert service.call("stream.get", STREAM)["etag"] == again["etag"]
