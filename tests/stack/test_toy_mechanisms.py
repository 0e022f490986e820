"""Mechanisms of others (tests/toys), installed beside the product, from the intent to the switch.

Each is a package with entry points; nothing of the product, and none of its tools, knows them.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.lab_user import CHECKOUT, User

TOYS = CHECKOUT / "tests/toys"
LABEL, STAMP = TOYS / "label", TOYS / "stamp"
GUARDED = CHECKOUT / "schedules/guarded.yaml"
WITHIN_S = 60
STAMPING = """
import os, sys
from pathlib import Path
from lxml import etree
from cnc import intent
from cnc.switch.device import ConnectOptions, Device

STAMPED = '''
<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
 <bridges xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge">
  <bridge>
   <name>br0</name>
   <component><name>br0</name><stamp xmlns="urn:toy:stamp">checked</stamp></component>
  </bridge>
 </bridges>
</config>'''
file, switch = sys.argv[1:]
keys = ConnectOptions(*(Path(os.environ[name]) for name in ("CNC_IDENTITY", "CNC_KNOWN_HOSTS")))
with Device(intent.load(Path(file)).network.bridges[switch], keys) as device:
    device.edit(etree.fromstring(STAMPED))
    device.commit_confirmed(60, "stamp")
    device.confirm("stamp")
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    here = User(tmp_path)
    here.packages = [LABEL, STAMP]
    yield here
    here.cnc("lab", "down", "guarded")


def test_a_mechanism_of_another_package_goes_the_whole_way(user: User) -> None:
    user.up(GUARDED)
    intent = user.home / "guarded.yaml"

    # A history that was written before the mechanism existed.
    user.packages = []
    assert "all switches confirmed" in user.does("push", GUARDED)
    user.packages = [LABEL, STAMP]

    # From a key of the intent to the file of each switch on the way.
    intent.write_text(_labelled(GUARDED.read_text()))
    said = user.does("push", intent)
    assert "1 label" in said
    assert "all switches confirmed" in said
    assert {file.read_text() for file in _files(user)} == {"0 03:54:53:4e:07:02 10 halt\n"}
    assert "no change" in user.does("push", intent)
    assert "labelled halt" in user.does("path", "stop", intent)
    _wait_for(user, intent, "all as planned")

    # Shown on the page, and in documents.
    page = user.home / "page.html"
    user.does("show", intent, "--html", page)
    assert "s2 labels it halt" in page.read_text()
    hops = json.loads(user.does("path", "stop", intent, "--json"))["hops"]
    assert {hop["label"] for hop in hops} == {"labelled halt"}

    # Changed behind the agent's back: status and watch see it, watch puts it back.
    changed = _file(user, "s2")
    changed.write_text(changed.read_text().replace("halt", "go"))
    _wait_for(user, intent, "is labelled go")
    healed = _watched(user, intent)
    assert "drift" in healed
    assert "is labelled go, wanted halt" in healed
    assert "restored s2/br0" in healed
    assert changed.read_text() == "0 03:54:53:4e:07:02 10 halt\n"

    # A program without the mechanism refuses what it could not put back.
    user.packages = []
    for words in (("history",), ("push", GUARDED), ("rollback",)):
        refused = user.cnc(*words)
        assert refused.returncode == 1, (words, refused.stderr)
        assert "it has 'labels' of a mechanism that is not installed here" in refused.stderr
    user.packages = [LABEL, STAMP]

    # Another mechanism's line in the same file, set by another client.
    _stamp(user, "s2")
    assert changed.read_text() == "0 03:54:53:4e:07:02 10 halt\n1 checked\n"

    # Removed, and rolled back to; the stamp is not the rollout's.
    assert "all switches confirmed" in user.does("push", GUARDED)
    assert changed.read_text() == "1 checked\n"
    assert "all switches confirmed" in user.does("rollback")
    assert changed.read_text() == "0 03:54:53:4e:07:02 10 halt\n1 checked\n"
    assert "all switches confirmed" in user.does("rollback", "1")
    assert changed.read_text() == "1 checked\n"
    user.does("lab", "down")
    assert user.left_of("guarded") == []


def _labelled(text: str) -> str:
    labelled, count = re.subn(r"(  stop: .*paths: 2)}", r"\1, label: halt}", text)
    assert count == 1
    return labelled


def _files(user: User) -> list[Path]:
    found = sorted((user.home / ".local/state/cnc/labs/guarded").glob("*.labels"))
    assert found
    return found


def _file(user: User, switch: str) -> Path:
    return next(file for file in _files(user) if f".{switch}." in file.name)


def _wait_for(user: User, intent: Path, text: str) -> None:
    """Until `cnc status` says so."""
    deadline = time.monotonic() + WITHIN_S
    while text not in (said := re.sub(r"\s+", " ", user.cnc("status", intent).stdout)):
        assert time.monotonic() < deadline, said
        time.sleep(0.5)


def _watched(user: User, intent: Path) -> str:
    """What `cnc watch` says until it has put something back."""
    argv, environment = user.command("watch", "--heal", "--interval", "1", intent)
    said = ""
    with subprocess.Popen(
        argv, env=environment, cwd=CHECKOUT, text=True, stdout=subprocess.PIPE
    ) as watching:
        assert watching.stdout
        for line in watching.stdout:
            said += line
            if "heal: restored" in line:
                break
        watching.terminate()
    return said


def _stamp(user: User, switch: str) -> None:
    """Configure the stamp of a switch as any NETCONF client does."""
    argv, environment = user.python("-c", STAMPING, GUARDED, switch)
    subprocess.run(argv, env=environment, cwd=CHECKOUT, check=True)
