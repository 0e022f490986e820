"""What journald gets of a log record, and who gets it when there is no journald."""

from __future__ import annotations

import logging
import os
import socket
import sys
from types import SimpleNamespace

import pytest

from agent import journal


@pytest.fixture
def journald(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "socket"))
        server.settimeout(10)
        yield server


@pytest.fixture
def log(journald):
    handler = journal.JournalHandler("tsn-test", journald.getsockname())
    logger = logging.Logger("agent.test")
    logger.addHandler(handler)
    yield logger
    handler.close()


def received(journald) -> dict[str, str]:
    """The fields of one datagram, taken apart as the protocol describes it."""
    rest, fields = journald.recv(2**18), {}
    while rest:
        line, _, rest = rest.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            length = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + length], rest[8 + length :].removeprefix(b"\n")
        fields[name.decode()] = value.decode()
    return fields


def test_a_record_is_a_text_with_priority_program_and_origin(log, journald):
    log.warning("port %s is %s", "p1", "down")

    fields = received(journald)
    assert fields["MESSAGE"] == "port p1 is down"
    assert fields["PRIORITY"] == "4"
    assert fields["SYSLOG_IDENTIFIER"] == "tsn-test"
    assert fields["LOGGER"] == "agent.test"
    assert fields["CODE_FILE"] == __file__


@pytest.mark.parametrize(
    ("level", "priority"),
    [("debug", "7"), ("info", "6"), ("warning", "4"), ("error", "3"), ("critical", "2")],
)
def test_levels_are_those_of_syslog(log, journald, level, priority):
    getattr(log, level)("x")

    assert received(journald)["PRIORITY"] == priority


def test_a_record_says_which_port_it_is_about(log, journald):
    log.info("set", extra={"fields": {"TSN_PORT": "p1"}})

    assert received(journald)["TSN_PORT"] == "p1"


def test_a_session_in_the_text_is_in_the_fields_too(log, journald):
    session = SimpleNamespace(log_fields={"TSN_SESSION": "3", "TSN_USER": "operator"})
    log.info("%s opened", session)

    fields = received(journald)
    assert (fields["TSN_SESSION"], fields["TSN_USER"]) == ("3", "operator")


def test_a_text_of_several_lines_stays_one_entry_and_forges_no_field(log, journald):
    log.error("refused:\nPRIORITY=0\nTSN_USER=root")

    fields = received(journald)
    assert fields["MESSAGE"] == "refused:\nPRIORITY=0\nTSN_USER=root"
    assert fields["PRIORITY"] == "3"
    assert "TSN_USER" not in fields


def test_a_traceback_is_part_of_the_text(log, journald):
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("failed")

    assert received(journald)["MESSAGE"].startswith("failed\nTraceback")


def test_a_text_that_fits_no_datagram_is_cut(log, journald):
    log.info("é" * journal.TEXT_OCTETS_MAX)

    text = received(journald)["MESSAGE"]
    assert len(text.encode()) == journal.TEXT_OCTETS_MAX
    assert set(text) == {"é"}


def test_without_journald_the_program_goes_on_and_says_so_on_stderr(tmp_path, capsys):
    handler = journal.JournalHandler("tsn-test", str(tmp_path / "nobody"))
    handler.handle(logging.makeLogRecord({"msg": "lost"}))
    handler.close()

    assert "Message: 'lost'" in capsys.readouterr().err


@pytest.fixture
def root_handlers(monkeypatch):
    """What `configure` gives the root logger, which others use as well."""
    given: list[logging.Handler] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **how: given.extend(how["handlers"]))
    yield given
    for handler in given:
        handler.close()


def test_a_service_whose_stderr_is_the_journal_speaks_to_journald(
    monkeypatch, root_handlers, tmp_path
):
    with (tmp_path / "stderr").open("w") as stderr:
        status = os.fstat(stderr.fileno())
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        journal.configure("INFO", "tsn-test")

    assert [type(each) for each in root_handlers] == [journal.JournalHandler]


def test_a_program_whose_stderr_leads_elsewhere_writes_there(monkeypatch, root_handlers, tmp_path):
    with (tmp_path / "stderr").open("w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        # Inherited from a service that has redirected the output of this program.
        monkeypatch.setenv("JOURNAL_STREAM", "1:2")
        journal.configure("INFO", "tsn-test")

    assert [type(each) for each in root_handlers] == [logging.StreamHandler]
