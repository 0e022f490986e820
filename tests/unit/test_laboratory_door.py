"""The laboratory may not be installed: the controller knows it by `cnc.laboratory` alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.python_imports import Package

CHECKOUT = Path(__file__).parents[2]
PACKAGE = Package(CHECKOUT, "cnc")
ROOM = "cnc.testbed"
# Runs `cnc` as it is where the laboratory is not installed.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("cnc.testbed"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from cnc.cli import main
main()
"""


def without_it(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def is_inside(module: str) -> bool:
    return module == ROOM or module.startswith(f"{ROOM}.")


@pytest.mark.parametrize("module", [name for name in PACKAGE.files if not is_inside(name)])
def test_no_module_of_the_controller_imports_the_laboratory(module):
    assert not [each for each in PACKAGE.imports(module) if is_inside(each.module)]


def test_only_the_door_names_the_laboratory():
    naming = {
        name
        for name, file in PACKAGE.files.items()
        if not is_inside(name) and f'"{ROOM}' in file.read_text()
    }
    assert naming == {"cnc.laboratory"}


def test_without_the_laboratory_an_intent_is_planned():
    planned = without_it("plan", "schedules/line3.yaml")
    assert planned.returncode == 0, planned.stderr


def test_without_the_laboratory_its_commands_say_what_to_install():
    for words in (["lab"], ["lab", "up", "schedules/line3.yaml", "--rehearse"]):
        refused = without_it(*words)
        assert refused.returncode == 2
        assert "the laboratory is not installed" in refused.stderr
        assert "pip install tsn-control-plane-lab" in refused.stderr


def test_without_the_laboratory_its_keys_are_refused_with_what_to_install(tmp_path):
    intent = tmp_path / "mine.yaml"
    text = (CHECKOUT / "schedules/line3.yaml").read_text()
    intent.write_text(f"{text}\nlab: {{kernels: own}}\n")
    refused = without_it("check", str(intent))
    assert refused.returncode == 2
    assert "lab" in refused.stderr
    assert "tsn-control-plane-lab" in refused.stderr
