"""What scripts/count-mechanisms counts, in a controller of a few lines."""

from __future__ import annotations

import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "count-mechanisms"

SOURCES = {
    "mechanisms/__init__.py": """
from cnc.mechanisms.gates.model import Gates
from cnc.mechanisms.shaping.model import Slopes
MECHANISMS = (Gates, Slopes)
""",
    "mechanisms/composition.py": "from cnc.mechanisms.shaping.model import Slopes",
    "mechanisms/gates/__init__.py": "",
    "mechanisms/gates/model.py": "class Gates: ...",
    "mechanisms/shaping/__init__.py": "",
    "mechanisms/shaping/model.py": """
from cnc.mechanisms.gates.model import Gates
class Slopes: ...
def beside(other: object) -> bool:
    return isinstance(other, Gates) or isinstance(other, Slopes)
""",
    "check/__init__.py": "from cnc.mechanisms.gates.model import Gates",
    "model.py": """
from __future__ import annotations
from cnc.mechanisms.gates.model import Gates
from cnc.mechanisms.shaping.model import Slopes
class Port:
    gates: Gates
    slopes: Slopes
""",
    "switch/__init__.py": """
from cnc.mechanisms import MECHANISMS, Gates
from cnc.model import Port
def by_attributes(port: Port) -> object:
    return port.gates or port.slopes
def one(port: Port) -> object:
    return port.gates
def all_of_them() -> object:
    return MECHANISMS
def kind(part: object) -> bool:
    match part:
        case Gates():
            return True
    return isinstance(part, str)
""",
    "rollout/__init__.py": "from cnc.switch import one\nfrom cnc.watch import seen",
    "watch/__init__.py": "import cnc.rollout\nseen = 1",
    "__main__.py": "import cnc.rollout",
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("controller")
    for name, source in SOURCES.items():
        (root / "cnc" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cnc" / name).write_text(source.lstrip())
    (root / "cnc" / "__init__.py").touch()
    return subprocess.run(
        [SCRIPT, "--list", root], capture_output=True, text=True, check=True
    ).stdout


def section(counted: str, title: str) -> list[str]:
    _, _, after = counted.partition(f"  {title}\n")
    listed = takewhile(lambda line: line.startswith(" " * 11), after.splitlines())
    return [line.strip() for line in listed]


def test_a_definition_counts_that_uses_two_mechanisms_by_import_or_attribute(counted):
    assert section(counted, "definitions that use two or more mechanisms") == [
        "cnc/model.py:4 Port: gates, shaping",
        "cnc/switch/__init__.py:3 by_attributes: gates, shaping",
    ]


def test_an_import_counts_where_it_comes_through_the_registry_too(counted):
    assert section(counted, "imports of a mechanism from outside") == [
        "cnc/mechanisms/composition.py: cnc.mechanisms.shaping.model",
        "cnc/model.py: cnc.mechanisms.gates.model",
        "cnc/model.py: cnc.mechanisms.shaping.model",
        "cnc/switch/__init__.py: cnc.mechanisms.gates.model",
    ]
    assert section(counted, "imports between mechanisms") == [
        "cnc/mechanisms/shaping/model.py: cnc.mechanisms.gates.model"
    ]


def test_a_test_for_a_type_counts_where_another_mechanism_owns_it(counted):
    assert section(counted, "isinstance tests") == [
        "cnc/mechanisms/shaping/model.py:4 Gates",
        "cnc/switch/__init__.py:11 Gates",
    ]


def test_rooms_in_a_circle_stand_on_one_floor(counted):
    assert section(counted, "loose modules") == ["cnc/model.py"]
    assert section(counted, "rooms in circles") == ["cnc.rollout", "cnc.watch"]
    floors = section(counted, "floors")
    assert floors[0] == "cnc cnc.mechanisms.gates"
    assert floors[-2:] == ["cnc.rollout cnc.watch", "cnc.__main__"]


def test_the_rooms_of_the_controller_stand_on_few_floors_and_in_no_circle():
    """What the reader of one room has to know of others; the rooms are in
    docs/reference/architecture.md."""
    done = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, check=True)
    assert section(done.stdout, "definitions that use two or more mechanisms") == []
    assert section(done.stdout, "rooms in circles") == []
    # The service stands on the application and its documents, adapters on the service's client, and
    # the command line on both.
    assert len(section(done.stdout, "floors")) <= 15
    assert len(section(done.stdout, "loose modules")) <= 6
