"""The module files of `yang/`, and what a switch may have had installed before them."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

import libyang

from tests.stack.yang_facts import Facts, compiled_tree

YANG = Path(__file__).parents[2] / "yang"
STANDARD = YANG / "standard"
CONTROLLER = YANG / "cnc"  # what a CNC offers: no switch has them
EXAMPLES = YANG / "examples"
# What sysrepo ships. It has a copy of some of ours, with the publisher's words.
SYSREPO = Path(shutil.which("sysrepoctl") or "").resolve().parents[1] / "share/yang/modules/sysrepo"

# The deviations of limits that no list keeps while a port states none.
DEVIATIONS = "tsn-linux-deviations"
# The deviations of what the agent does not apply, so that the server refuses it.
UNSUPPORTED = "tsn-linux-unsupported"
MODULE_FILES = sorted([*YANG.glob("*.yang"), *STANDARD.glob("*.yang")])

_CYCLE = "./numerator div ./denominator"
_CYCLE_MAX = "../supported-cycle-max/numerator div ../supported-cycle-max/denominator"
# The limits of ieee802-dot1q-sched as published, and as version 0.1 had them in the module itself.
RELAXED_BY_FIRST_VERSION = {
    "(. <= ../../../supported-interval-max )": "not(. > ../../../supported-interval-max)",
    "(count(./gate-control-entry) <= ../supported-list-max)": (
        "not(count(./gate-control-entry) > ../supported-list-max)"
    ),
    f"({_CYCLE} <= {_CYCLE_MAX} )": f"not({_CYCLE} > {_CYCLE_MAX})",
}


def wanted_modules() -> dict[str, list[str]]:
    """Module to features, as `modules.txt` has them."""
    lines = (YANG / "modules.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: features[0].split(",") if features else [] for name, *features in rows}


def listed_modules() -> dict[str, list[str]]:
    """Those of `wanted_modules` that sysrepo does not bring along: the files are ours."""
    ours = {file.stem for file in MODULE_FILES}
    return {name: features for name, features in wanted_modules().items() if name in ours}


@functools.cache
def _others() -> tempfile.TemporaryDirectory[str]:
    directory = tempfile.TemporaryDirectory(prefix="yang-")
    ours = {file.stem for file in MODULE_FILES}
    for file in SYSREPO.glob("*.yang"):
        if file.stem.split("@")[0] not in ours:
            (Path(directory.name) / file.name).symlink_to(file)
    return directory


def search_path() -> list[Path]:
    """Where ours and what they import are found, and nothing that ours could be taken for."""
    return [YANG, STANDARD, CONTROLLER, Path(_others().name)]


def empty_context() -> libyang.Context:
    return libyang.Context(":".join(map(str, search_path())))


def installed_context() -> libyang.Context:
    """All modules with the features a switch has."""
    return _context(listed_modules())


def standard_context() -> libyang.Context:
    """As `installed_context`, with what the agent does not apply."""
    modules = listed_modules()
    del modules[UNSUPPORTED]
    return _context(modules)


def _context(modules: dict[str, list[str]]) -> libyang.Context:
    context = empty_context()
    for name, features in modules.items():
        context.load_module(name, enabled_features=features)
    return context


@functools.cache
def _instance_nodes() -> dict[str, list[Facts]]:
    """Module to its nodes that an instance can show: not those of operations and notifications."""
    with installed_context() as context:
        nodes = {name: compiled_tree(context, name).values() for name in listed_modules()}
    return {
        name: [node for node in found if node["kind"] not in ("rpc", "notification")]
        for name, found in nodes.items()
    }


def with_data() -> list[str]:
    """The modules of which an example can show something."""
    return [name for name, nodes in _instance_nodes().items() if nodes]


def with_config() -> list[str]:
    """Those of them that have something to configure. The examples of the others show state."""
    return [name for name, nodes in _instance_nodes().items() if any(n["config"] for n in nodes)]


def as_of_first_version(directory: Path) -> Path:
    """`directory`, new, with the modules of `yang/standard` and the limits that 0.1 had in them."""
    shutil.copytree(STANDARD, directory)
    with empty_context() as context:
        text = context.load_module("ieee802-dot1q-sched").print_mem("yang")
    for published, relaxed in RELAXED_BY_FIRST_VERSION.items():
        assert f'must "{published}"' in text
        text = text.replace(f'must "{published}"', f'must "{relaxed}"')
    (directory / "ieee802-dot1q-sched.yang").write_text(text)
    return directory
