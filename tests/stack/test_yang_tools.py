"""The tools of others take the modules as they are: pyang and yanglint, with nothing to remark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.stack.yang_modules import (
    DEVIATIONS,
    EXAMPLES,
    MODULE_FILES,
    as_published,
    listed_modules,
    search_path,
    with_config,
    with_data,
)

# Remarks of pyang on what is the standard's, not ours. Each must be made: one that no longer is has
# no place here.
INHERENT = {
    # The names are IANA's, and so is that the registry describes them and the module does not.
    "iana-if-type": 'statement "identity" must have a "description" substatement',
    # Named by the servers that had it first; a client finds it by this name.
    "notifications": "no module name prefix string used",
}


def run(*command: str | Path) -> list[str]:
    """The remarks of a tool that succeeded or refused."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    remarks = (result.stdout + result.stderr).splitlines()
    assert remarks or result.returncode == 0
    return remarks


@pytest.fixture
def published(tmp_path):
    """The modules that `tsn-linux-deviations` is for, and that module."""
    directory = as_published(tmp_path / "published")
    shutil.copy(DEVIATIONS, directory)
    return directory


@pytest.mark.parametrize("file", MODULE_FILES, ids=lambda f: f.stem)
def test_pyang_has_nothing_to_remark_on_a_module(file):
    remarks = run("pyang", "--lint", "--path", ":".join(map(str, search_path())), file)

    inherent = INHERENT.get(file.stem, "nothing")
    assert [line for line in remarks if inherent not in line] == []
    assert bool(remarks) == (file.stem in INHERENT)


def test_pyang_has_nothing_to_remark_on_the_deviations(published):
    assert run("pyang", "--lint", "--path", published, published / DEVIATIONS.name) == []


@pytest.mark.parametrize("file", MODULE_FILES, ids=lambda f: f.stem)
def test_yanglint_has_nothing_to_remark_on_a_module(file):
    assert run(*yanglint(*search_path()), file) == []


def test_yanglint_has_nothing_to_remark_on_the_deviations(published):
    assert run(*yanglint(published), published / DEVIATIONS.name) == []


@pytest.mark.parametrize("module", with_data())
def test_yanglint_takes_the_example_of_a_module(module):
    features = [f"--features={name}:{','.join(f)}" for name, f in listed_modules().items()]
    kind = "config" if module in with_config() else "data"

    assert (
        run(
            *yanglint(*search_path()),
            *features,
            "--present",
            f"--type={kind}",
            *MODULE_FILES,
            EXAMPLES / f"{module}.xml",
        )
        == []
    )


def yanglint(*search: Path) -> list[str]:
    return ["yanglint", "--disable-searchdir", *(f"--path={directory}" for directory in search)]
