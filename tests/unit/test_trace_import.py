"""What `cnc lab trace --import` makes of the tables of two hosts, computed by hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from matplotlib.figure import Figure

from cnc.cli import cnc
from cnc.errors import InputError
from cnc.testbed.traffic.trace.imported import Imported
from cnc.testbed.traffic.trace.stages import stages

DATA = Path(__file__).parent / "data" / "probe"
SENT, RECEIVED = DATA / "sent.csv", DATA / "received.csv"
REPORT = DATA / "isochron.txt"
# The clocks of both hosts are three years apart. Packet 2 was lost; of 3 it is not known when it
# left.
SENDER_NS = {0: 4_000, 1: 3_700, 4: 4_000, 5: 4_000}  # left_ns - app_ns
RECEIVER_NS = {0: 12_000, 1: 13_000, 4: 12_500, 5: 11_900}  # got_ns - rx_ns


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cnc, ["lab", "trace", "--import", *map(str, arguments)])


def refused(*arguments: object) -> str:
    """What is said of input that is refused."""
    done = run(*arguments)
    if isinstance(done.exception, InputError):
        assert done.exception.exit_code == 2
        return str(done.exception)
    assert done.exit_code == 2
    return done.output


def document(*arguments: object) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_sender_and_receiver_are_differences_on_one_clock_each_and_the_total_is_their_sum():
    found = {
        account.row.seq: (stages(account.row), account.total_ns)
        for account in Imported((SENT, RECEIVED)).accounts()
        if account.total_ns is not None
    }
    assert {seq: its.sender_ns for seq, (its, _) in found.items()} == SENDER_NS
    assert {seq: its.receiver_ns for seq, (its, _) in found.items()} == RECEIVER_NS
    assert {its.channel_ns for its, _ in found.values()} == {None}
    for seq, (its, total_ns) in found.items():
        assert total_ns == its.end_stations_ns == SENDER_NS[seq] + RECEIVER_NS[seq]


def test_the_parts_of_a_packet_add_up_to_its_total():
    accounts = list(Imported((SENT, RECEIVED)).accounts())
    assert [(part.place, part.duration_ns) for part in accounts[1].parts] == [
        ("alpha", 2_500),
        ("alpha/port", 1_200),
        ("beta", 13_000),
    ]
    assert accounts[1].total_ns == 16_700


def test_a_lost_packet_is_counted_and_in_no_figure():
    (flow,) = document(SENT, RECEIVED)["flows"]
    assert (flow["frames"], flow["lost"], flow["incomplete"]) == (6, 1, 1)
    assert flow["stages"].keys() == {"sender", "receiver"}
    assert flow["stages"]["sender"]["sum_ns"] == sum(SENDER_NS.values())
    assert flow["stages"]["receiver"]["sum_ns"] == sum(RECEIVER_NS.values())
    assert flow["total_sum_ns"] == sum(SENDER_NS.values()) + sum(RECEIVER_NS.values())
    assert flow["total"]["min_ns"] == 15_900


def test_the_document_says_where_it_was_measured_and_how_late_the_sender_woke():
    found = document(SENT, RECEIVED)
    assert found["platform"] is found["margins"] is None
    run_ = found["imported"]
    assert run_["sender"] == {"name": "alpha", "clock": "tsc", "stamp_cost_ns": 18.5}
    assert run_["receiver"] == {"name": "beta", "clock": "realtime", "stamp_cost_ns": 23.1}
    assert run_["wake_up"]["min_ns"] == 49_000
    assert run_["wake_up"]["max_ns"] == 60_000


def test_either_table_may_come_first():
    assert document(RECEIVED, SENT) == document(SENT, RECEIVED)


def test_the_tables_of_a_lab_are_shown_without_what_two_hosts_do_not_have():
    lines = [line.split() for line in run(SENT, RECEIVED).stdout.splitlines()]
    heads = [line for line in lines if line[:1] == ["flow"]]
    assert heads[0][1:] == [
        "frames",
        "lost",
        "incomplete",
        "socket",
        "qdisc",
        "listener",
        "total",
        "max",
    ]
    assert heads[1][1:] == ["path", "sender", "receiver", "sender", "+", "receiver"]
    # The means of four: 2.9, 1.025 and 12.35 µs; and the slowest of them.
    assert ["probe", "6", "1", "1", "2.9", "1.025", "12.35", "16.275", "16.7"] in lines
    assert ["probe", "1", "3.925", "12.35", "16.275"] in lines
    assert not [line for line in lines if line[:1] == ["margins"]]


def test_a_packet_is_shown_from_the_programs_reading_of_the_clock_on():
    lines = [line.split() for line in run(SENT, RECEIVED, "--frame", "probe/1").stdout.splitlines()]
    assert " ".join(lines[0]).startswith("probe/1, alpha to beta by path 1 (single), sent 1001 µs")
    assert ["3.7", "13", "beta", "listener"] in [line[:4] for line in lines]


def test_outliers_have_the_host_that_made_them_late(tmp_path):
    sent, received = tmp_path / "sent.csv", tmp_path / "received.csv"
    head = "# tsn-probe 1\n# command {}\n# host {}\n# run 1\n# clock realtime\n# stamp_cost_ns 20\n"
    with sent.open("w") as out, received.open("w") as into:
        out.write(head.format("send", "alpha") + "seq,planned_ns,app_ns,sched_ns,left_ns\n")
        into.write(head.format("receive", "beta") + "seq,rx_ns,got_ns\n")
        for seq in range(40):
            at_ns = 10**18 + seq * 10**6
            out.write(f"{seq},{at_ns},{at_ns + 50},{at_ns + 3_050 + seq},{at_ns + 4_050 + seq}\n")
            late_ns = 90_000 if seq in {7, 23} else 12_000 + seq
            into.write(f"{seq},{at_ns + 5_000},{at_ns + 5_000 + late_ns}\n")
    (way,) = document(sent, received, "--outliers")["outliers"]
    assert way["seqs"] == [7, 23]
    assert way["causes"] == [{"place": "beta", "layer": "listener", "frames": 2}]


def test_the_joined_packets_are_kept_as_a_table(tmp_path):
    assert run(SENT, RECEIVED, "-o", tmp_path / "record").exit_code == 0
    with (tmp_path / "record" / "trace.csv").open() as text:
        rows = {int(row["seq"]): row for row in csv.DictReader(text)}
    assert {seq: int(rows[seq]["sender_ns"]) for seq in SENDER_NS} == SENDER_NS
    assert {seq: int(rows[seq]["receiver_ns"]) for seq in RECEIVER_NS} == RECEIVER_NS
    assert {row["channel_ns"] for row in rows.values()} == {""}
    assert rows[2]["delivered_ns"] == rows[2]["total_ns"] == rows[3]["total_ns"] == ""


def test_pictures_are_drawn_of_the_stages_and_layers_that_there_are(tmp_path, monkeypatch):
    saved = []

    def save(*what: Any) -> dict[str, str]:
        saved.append(what)
        return {picture.name: "<svg/>" for picture in what[0]}

    monkeypatch.setattr("cnc.testbed.experiments.pictures.save", save)
    assert run(SENT, RECEIVED, "--pictures", tmp_path / "drawn").exit_code == 0
    ((drawn, directory, facts),) = saved
    assert directory == tmp_path / "drawn"
    assert facts == {"measured by tsn-probe from": "alpha to beta"}
    figures = {picture.name: Figure() for picture in drawn}
    for picture in drawn:
        picture.draw(figures[picture.name])
    stages_drawn = [axes.get_title(loc="left") for axes in figures["stages"].axes]
    assert stages_drawn == ["sender, with its port", "receiver"]
    for name, axis in (("causes", "yaxis"), ("correlation", "xaxis")):
        labels = getattr(figures[name].axes[0], axis).get_ticklabels()
        assert [label.get_text() for label in labels] == ["socket", "qdisc", "listener"]
    assert figures["frames"].axes[0].get_xlabel() == "µs, without the channel"


def test_a_report_of_isochron_is_the_same_with_its_own_variables():
    """As isochron 0.9 (Debian 12) printed it, of 20 packets between two namespaces in virtual time,
    five of which netem dropped. Both ends ran with a library preloaded that answers for a hardware
    clock, as tests/kernel/hardware_clock.c does; stamps are the kernel's software ones. Packet 1: w
    50,769 ns after S - A, t 256 ns after w, a 1,280 ns after r."""
    found = document(REPORT)
    (flow,) = found["flows"]
    assert (flow["flow"], flow["frames"], flow["lost"]) == ("isochron", 20, 5)
    assert flow["stages"]["sender"]["spread"]["max_ns"] == 256
    assert flow["stages"]["receiver"]["spread"]["max_ns"] == 1_280
    assert flow["total_sum_ns"] == 15 * (256 + 1_280)
    assert found["imported"]["wake_up"]["max_ns"] == 50_769
    assert found["imported"]["sender"] == {
        "name": "sender",
        "clock": None,
        "stamp_cost_ns": None,
    }


def edit(change: Callable[[str], str], original: Path, directory: Path) -> Path:
    changed = directory / original.name
    changed.write_text(change(original.read_text()))
    return changed


REFUSED = {
    "received.csv:1: found '# tsn-probe 2'": lambda text: text.replace("probe 1", "probe 2", 1),
    "sent.csv is of run 0badcafe, ": lambda text: text.replace("0badcafe", "1badcafe"),
    "received.csv: expected a line `# run ...`": lambda text: text.replace("# run 0badcafe\n", ""),
    "stamp_cost_ns: found 'nan', expected a number": lambda text: text.replace("23.1", "nan"),
    "received.csv:2: found '# probe'": lambda text: "\n# probe\n" + text,
    "command: found 'listen', expected send or receive": (
        lambda text: text.replace("command receive", "command listen")
    ),
    "are both of `tsn-probe send`": lambda text: text.replace("command receive", "command send"),
    "expected a column rx_ns": lambda text: text.replace("rx_ns", "received_ns"),
    "received.csv:12: found '1,1600000000001000100,1600000000001013100', expected 4 cells": (
        lambda text: text.replace("013100,", "013100")
    ),
    "received.csv:11: found '-5', expected nanoseconds since 1970": (
        lambda text: text.replace("1600000000000012000", "-5")
    ),
    "received.csv:11: found '9999999999999999999', expected nanoseconds since 1970": (
        lambda text: text.replace("1600000000000012000", "9" * 19)
    ),
    "received.csv:13: found '1', expected a seq above 1": (
        lambda text: text.replace("\n3,", "\n1,")
    ),
    "an instant in got_ns": lambda text: text.replace("1600000000000012000", ""),
    "packet 6 is not in": lambda text: text.replace("\n5,", "\n6,"),
    "received.csv is empty": lambda text: "",
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_table_has_is_refused_with_file_and_line(said, tmp_path):
    received = edit(REFUSED[said], RECEIVED, tmp_path)
    assert said in refused(SENT, received, "-o", tmp_path / "record")
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q=1 w=5 t=6 r=7\n", ":1: found 'q=1 w=5 t=6 r=7', expected q=, w=, t=, r= and a="),
        ("q=1 w=0 t=6 r=7 a=8\n", ":1: found 'q=1 w=0 t=6 r=7 a=8', expected q="),
        ("q=2 w=5 t=6 r=7 a=8\nq=2 w=5 t=6 r=7 a=8\n", ":2: found 'q=2', expected one above 2"),
        ("# tsn-probe 1\n", "is the table of one host"),
        ("\n", "has no packet"),
    ],
)
def test_what_is_no_report_is_refused_with_file_and_line(text, said, tmp_path):
    report = tmp_path / "report.txt"
    report.write_text(text)
    assert said in refused(report)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((SENT, RECEIVED, REPORT), "--import: found 3 files, expected two tables"),
        ((SENT, RECEIVED, "--cycles", 3), "--import sends nothing"),
        ((SENT, RECEIVED, "--duration", "1s"), "--import sends nothing"),
        ((SENT, RECEIVED, "--frame", "motion/1"), "found the flow 'motion', expected one of probe"),
        ((SENT, RECEIVED, "--frame", "probe/6"), "probe has no frame 6"),
    ],
)
def test_what_an_import_cannot_do_is_refused(arguments, said):
    assert said in refused(*arguments)


def test_two_files_without_import_are_refused():
    done = CliRunner().invoke(cnc, ["lab", "trace", str(SENT), str(RECEIVED)])
    assert done.exit_code == 2
    assert "found 2 files, expected one, or --import" in done.output


def with_clocks(tmp_path: Path, **clocks: object) -> Path:
    """The sender's table, as `--sync` writes it."""
    lines = "".join(f"# {name} {value}\n" for name, value in clocks.items())
    file = tmp_path / "sent.csv"
    file.write_text(SENT.read_text().replace("seq,planned", f"{lines}seq,planned"))
    return file


def test_between_clocks_that_were_compared_the_channel_is_known(tmp_path: Path) -> None:
    limit = {"sync_limit_ns": 1_000, "offset_ns": -120, "receiver_offset_ns": 80}
    sent = with_clocks(tmp_path, **limit)
    imported = document(sent, RECEIVED)["imported"]
    assert imported["clocks"] == {"limit_ns": 1_000, "sender_ns": -120, "receiver_ns": 80}
    with SENT.open() as sender, RECEIVED.open() as receiver:
        left, rx = (
            {
                row["seq"]: row[column]
                for row in csv.DictReader(line for line in f if line[0] != "#")
            }
            for f, column in ((sender, "left_ns"), (receiver, "rx_ns"))
        )
    took_ns = [int(rx[seq]) - int(left[seq]) for seq in rx if left[seq] and rx[seq]]
    assert imported["channel"]["min_ns"] == min(took_ns)
    assert imported["channel"]["max_ns"] == max(took_ns)
    output = run(sent, RECEIVED).output
    assert "their clocks were -0.12 and 0.08 µs from one grandmaster, and within 1 µs" in output
    assert "exact to 2 µs where the clocks stayed within the limit" in output


def test_between_clocks_that_were_not_compared_it_is_not() -> None:
    imported = document(SENT, RECEIVED)["imported"]
    assert imported["clocks"] is imported["channel"] is None


def test_an_offset_that_is_no_number_is_refused(tmp_path: Path) -> None:
    sent = with_clocks(tmp_path, sync_limit_ns=1_000, offset_ns="far", receiver_offset_ns=0)
    assert "offset_ns: found 'far', expected nanoseconds" in refused(sent, RECEIVED)
