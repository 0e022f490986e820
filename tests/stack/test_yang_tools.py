"""The tools of others take the modules as they are: pyang and yanglint, with nothing to remark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack.yang_modules import (
    CONTROLLER,
    EXAMPLES,
    MODULE_FILES,
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
    # A deviation can make a mandatory leaf optional in no other way.
    "tsn-linux-unsupported": 'statement "mandatory" is given with its default value "false"',
}


def run(*command: str | Path) -> list[str]:
    """The remarks of a tool that succeeded or refused."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    remarks = (result.stdout + result.stderr).splitlines()
    assert remarks or result.returncode == 0
    return remarks


def test_pyang_has_nothing_to_remark_on_our_modules():
    files = [*MODULE_FILES, *CONTROLLER.glob("*.yang")]
    remarks = run("pyang", "--lint", "--path", ":".join(map(str, search_path())), *files)

    # pyang brings a newer iana-if-type of its own, and remarks on that, too.
    ours = [line for line in remarks if not line.startswith(f"{sys.prefix}/share/yang/modules/")]
    found = {(remarked_on(line), line.partition(": ")[2]) for line in ours}
    assert {name for name, _ in found} == set(INHERENT), remarks
    assert [remark for name, remark in found if INHERENT[name] not in remark] == []


def remarked_on(line: str) -> str:
    """The module that a remark of pyang is about: it begins with FILE:LINE."""
    return Path(line.partition(":")[0]).stem


def test_yanglint_has_nothing_to_remark_on_our_modules():
    assert run(*yanglint(*search_path()), *MODULE_FILES) == []


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
