"""Flows through a chain of components: files, functions, programs, and the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc.errors import InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.chain import Chain
from cnc.testbed.experiments.chain.experiment import COLUMNS
from cnc.testbed.experiments.experiment import write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.chain import functions, program, roles
from cnc.testbed.traffic.chain.run import ChainFlow, Loss
from cnc.testbed.traffic.edge.predictors import hold
from cnc.testbed.traffic.loop.own import made_by

ROOT = Path(__file__).parents[2]
SCHEDULES = ROOT / "schedules"
FILE = SCHEDULES / "experiments" / "chain.yaml"
PAGE = ROOT / "docs" / "lab" / "chain.md"
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
MS = 1_000_000


def changed(directory: Path, *changes: tuple[str, str]) -> Path:
    """chain.yaml with other text in it, in another directory."""
    text = FILE.read_text().replace("../chain.yaml", str(SCHEDULES / "chain.yaml"))
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = directory / "chain.yaml"
    file.write_text(text)
    return file


def chain(file: Path = FILE) -> Chain:
    made = experiments.experiment_of(experiments.load(file), file)
    assert isinstance(made, Chain)
    return made


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("station: h4", "station: h9", "components[5].station: found 'h9', expected one of "),
        ("role: ss-ei", "role: ss-edge", "components[5].role: found 'ss-edge', expected one of "),
        ("role: ss-ei", "role: ms-ei", "role: found 'ms-ei', expected a role that is not before"),
        (
            "interval: 2ms, packet: 100B",
            "interval: 1ms, packet: 100B",
            "flows: they are 114% of what s3/rb",
        ),
        (
            "forward, interval: 2ms",
            'forward, functions: {sense: "a:b"}, interval: 2ms',
            "flows.kinematic.functions: found 'sense', expected one of ",
        ),
        (
            "forward, interval: 2ms",
            "forward, loss: {at: tactile-operator, percent: 1}, interval: 2ms",
            "flows.kinematic.loss.at: found 'tactile-operator', expected one of ",
        ),
        (
            "backward, interval: 40ms",
            "backward, predict-after: 1ms, interval: 40ms",
            "flows.video.predict-after: found video, expected a flow with edge intelligence",
        ),
        (
            "duration: 2s",
            "duration: 30ms",
            "flows.video.interval: found 40ms, expected at most 30ms",
        ),
    ],
)
def test_what_does_not_fit_a_chain_is_refused(tmp_path: Path, old: str, new: str, why: str):
    with pytest.raises(InputError) as refused:
        chain(changed(tmp_path, (old, new)))
    assert why in str(refused.value)


def test_a_chain_without_a_flow_is_refused(tmp_path: Path):
    text = FILE.read_text()
    flows = text[text.index("flows:") : text.index("duration:")]
    with pytest.raises(InputError, match="flows: found no flow, expected one of audio"):
        chain(changed(tmp_path, (flows, "flows: {}\n")))


# --- functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", roles.DEFAULTS)
def test_every_function_of_a_flow_has_a_default_and_octets_become_the_value_again(flow: str):
    its = {name: made_by(of, "") for name, of in roles.DEFAULTS[flow].items()}
    called = {step for work in roles.WORK[flow].values() for step in work}
    assert its.keys() == {"receive", "code", "decode", "send"} | called
    for n in range(50):
        value = its["receive"](n, n * 0.02)
        again = its["decode"](its["code"](value))
        # Of a sample of sound the upper octet is left.
        assert again == (value if flow != "audio" else [each & ~0xFF for each in value])
        assert isinstance(its["send"](again), str)


def test_a_robot_with_other_links_has_its_tip_where_the_hand_is():
    hand = functions.joints_of_a_hand(0, 0.3)
    place = functions.kinematics(hand)
    joints = functions.inverse_kinematics(place)
    assert joints != hand
    assert functions._ROBOT.tip(joints) == pytest.approx(place)


def test_components_call_what_their_role_asks_for():
    def called(flow: str, role: str, **ends: bool) -> list[str]:
        given = {"is_first": False, "is_last": False, "predicts": True, **ends}
        return roles.steps(flow, role, **given)

    assert called("kinematic", "tactile-operator", is_first=True) == ["receive", "code"]
    work = ["decode", "kinematics", "inverse-kinematics", "code"]
    assert called("kinematic", "srv") == work
    assert called("haptic", "srv") == []
    assert called("haptic", "ss-embsys") == ["decode", "sense", "code"]
    assert called("kinematic", "ss-ei") == ["decode", "predict", "code"]
    assert called("kinematic", "ss-ei", predicts=False) == []
    assert called("video", "tactile-operator", is_last=True) == ["decode", "send"]


# --- programs ------------------------------------------------------------------------------------


class Line:
    """The way in and the way out of a component, in this process."""

    def __init__(self, came: list[tuple[int, int, bytes]]) -> None:
        self.came, self.sent = came, dict[int, bytes]()

    def begin(self) -> int:
        return 0

    def until_told(self) -> Iterator[tuple[int, int, bytes]]:
        yield from self.came

    def come(self) -> Iterator[tuple[int, int, bytes]]:
        """Each poll has one more."""
        yield from self.came[:1]
        self.came = self.came[1:]

    def send(self, seq: int, message: bytes) -> int:
        self.sent[seq] = message
        return 7


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    made = Line([])
    for name in ("Incoming", "Outgoing"):
        monkeypatch.setattr(program, name, lambda _spec: made)
    monkeypatch.setattr(program, "sleep_until", lambda _instant: None)
    monkeypatch.setattr(program, "be_punctual", lambda **_its: None)
    monkeypatch.setattr(program, "wait_for_start", lambda: 0)
    return made


def spec(*named: str, **more: Any) -> dict[str, Any]:
    times = {"interval_ns": 2 * MS, "offset_ns": 0, "work_ns": 0, "after_ns": 0, "messages": 4}
    its = [roles.DEFAULTS["kinematic"][name] for name in named]
    return {"functions": its, "modules": "", **times, **more}


def test_a_sensor_is_read_at_the_instant_of_each_message(line: Line):
    rows = [*program.first(spec("receive", "code"))]
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert functions.of_numbers(line.sent[3]) == functions.joints_of_a_hand(3, 0.006)


def test_a_message_is_worked_on_and_others_pass_as_they_are(line: Line):
    hand = functions.joints_of_a_hand(0, 0.0)
    line.came = [(0, 5, functions.numbers(hand))]
    rows = [*program.pass_on(spec("decode", "kinematics", "inverse-kinematics", "code"))]
    assert rows == [(0, 5, 7, "")]
    made = functions.inverse_kinematics(functions.kinematics(hand))
    assert functions.of_numbers(line.sent[0]) == made
    line.came = [(1, 6, b"any octets")]
    assert [*program.pass_on(spec())] == [(1, 6, 7, "")]
    assert line.sent[1] == b"any octets"


def test_edge_intelligence_sends_the_last_value_in_place_of_one_that_has_not_come(line: Line):
    one, other = (functions.numbers((value,)) for value in (0.25, 0.75))
    line.came = [(0, 5, one), (2, 9, other)]
    rows = [*program.predict(spec("decode", "predict", "code"))]
    # Message 2 has come by the instant of message 1, and is of no use before its own.
    assert rows == [(0, 5, 7, ""), (1, "", 7, ""), (2, 9, 7, ""), (3, "", 7, "")]
    assert [line.sent[n] for n in range(4)] == [one, one, other, other]
    assert roles.DEFAULTS["kinematic"]["predict"].endswith(f":{hold.__name__}")


def test_what_comes_to_the_end_is_shown_with_all_digits(line: Line):
    line.came = [(0, 5, functions.numbers((0.1, 1 / 3)))]
    assert [*program.last(spec("decode", "send"))] == [(0, 5, "", "0.1 0.3333333333333333")]


def test_a_message_without_room_in_its_packet_is_named():
    outgoing = object.__new__(program.Outgoing)
    outgoing._room, outgoing._flow = 10, "video"
    with pytest.raises(SystemExit, match="flow video: a message of 11 octets is coded, and a pack"):
        outgoing.send(0, bytes(11))


def test_the_functions_on_the_page_are_called_in_place_of_the_defaults(tmp_path: Path, line: Line):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "mine_on_the_page.py").write_text(code)
    named = [
        roles.DEFAULTS["kinematic"]["decode"],
        *("mine_on_the_page:gripper", "mine_on_the_page:show"),
    ]
    line.came = [(n, 5, functions.numbers((x, 0.0))) for n, x in enumerate((0.4, 0.5))]
    rows = [*program.last({**spec(), "functions": named, "modules": str(tmp_path)})]
    assert [row[3] for row in rows] == ["open", "closed"]


def test_what_is_lost_is_drawn_by_seed_at_the_component_that_is_named():
    flow = ChainFlow("haptic", True, MS, 100, loss=Loss("srv", 25))
    lost = flow.lost("srv", 400, 1)
    assert lost == flow.lost("srv", 400, 1) != flow.lost("srv", 400, 2)
    assert 60 < len(lost) < 140
    assert flow.lost("ss-com", 400, 1) == []
    whole = ChainFlow("haptic", True, MS, 100, loss=Loss("srv", 100))
    assert whole.lost("srv", 1_000, 1) == [*range(1_000)]


# --- the report ----------------------------------------------------------------------------------


def reported(directory: Path, its: Chain, missing: int = 0) -> Any:
    """The report of a lab that loses what the file says, and of the kinematic flow so many more."""
    rows = []
    for flow in its.chained.flows:
        *_, end = flow.way(its.chained.chain)
        messages = its.chained.messages(flow)
        gone = {*flow.lost(end.role, messages, its.chained.seed)}
        gone |= {*range(missing)} if flow.name == "kinematic" else set()
        came = [n for n in range(messages) if n not in gone]
        rows += [(flow.name, end.role, n, 4 * MS, "", "") for n in came]
    write_rows(directory, COLUMNS, rows)
    return its.report(directory, EXACT)


def test_a_flow_loses_what_the_file_says_and_nothing_else(tmp_path: Path):
    its = chain()
    assert reported(tmp_path, its).disagreements == []
    assert reported(tmp_path, its, missing=3).disagreements == [
        "kinematic: 3 of 1000 messages lost, and 0 were to be"
    ]
    loss = "forward, loss: {at: tactile-teleoperator, percent: 30}, interval: 2ms"
    lossy = chain(changed(tmp_path, ("forward, interval: 2ms", loss)))
    report = reported(tmp_path, lossy)
    assert report.disagreements == []
    (kinematic, *_) = report.summary["flows"]
    assert 200 < kinematic["lost"] < 400


def test_an_idle_network_takes_what_its_cables_and_the_work_take(tmp_path: Path):
    report = reported(tmp_path, chain())
    (kinematic, *_) = report.summary["flows"]
    assert kinematic["idle_ns"] == 3_602_688
    # With the server beside the operator no message goes there and back.
    moved = chain(changed(tmp_path, ("role: srv, station: srv", "role: srv, station: h1")))
    (nearer, *_) = reported(tmp_path, moved).summary["flows"]
    assert nearer["idle_ns"] < kinematic["idle_ns"] - 100_000
