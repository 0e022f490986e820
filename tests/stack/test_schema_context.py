"""A process without sysrepo has sysrepo's schemas, and reads its data as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from _libyang import ffi, lib

from agent.sysrepo import LibyangError, SysrepoConnection
from agent.sysrepo.data import (
    DEFAULTS_MODES,
    WITH_ORIGIN,
    get_data,
    parse_data,
    print_json,
    print_lyb,
    print_xml,
)
from agent.sysrepo.schema_context import build, export
from tests.stack.filtered_switch import IF

YANG = Path(__file__).parents[2] / "yang"
LISTED = (YANG / "modules.txt").read_text().splitlines()
OURS = [line.split()[0] for line in LISTED if not line.startswith("#")]
# printer_schema.h: the bindings lack it.
LYS_OUT_YANG_COMPILED = 2

# A module with all that is not in a text of its own: another's deviation, augment and feature, a
# submodule, and a type from a module that is only imported, in another revision than the newest.
STRANGE = {
    "base@2020-01-01": """module base { yang-version 1.1; namespace urn:base; prefix b;
      include base-parts; revision 2020-01-01; feature on; feature off;
      container c { leaf gone { type string; } leaf kept { type uint8; default 1; }
        leaf if-on { if-feature on; type string; } leaf if-off { if-feature off; type string; } } }
    """,
    "base-parts@2020-01-02": """submodule base-parts { yang-version 1.1;
      belongs-to base { prefix b; } import types { prefix t; revision-date 2020-01-03; }
      revision 2020-01-02; container from-part { leaf typed { type t:name; } } }""",
    "types@2020-01-03": """module types { namespace urn:types; prefix t; revision 2020-01-03;
      typedef name { type string { length 1..3; } } }""",
    "types@2021-01-03": """module types { namespace urn:types; prefix t; revision 2021-01-03;
      typedef name { type string; } leaf unused { type string; } }""",
    "other@2020-01-04": """module other { namespace urn:other; prefix o;
      import base { prefix b; } revision 2020-01-04; augment /b:c { leaf added { type string; } }
      deviation /b:c/b:gone { deviate not-supported; }
      deviation /b:c/b:kept { deviate replace { default 2; } } }""",
}


@pytest.fixture(scope="module")
def exported(data_switch):
    return export(data_switch)


@pytest.fixture(scope="module")
def context(exported):
    return build(exported)


def compiled(context):
    """All of each implemented module as libyang has compiled it: deviated, augmented, defaults."""
    return {module.name(): _compiled(module) for module in context if module.implemented()}


def _compiled(module):
    text = ffi.new("char **")
    assert not lib.lys_print_mem(text, module.cdata, LYS_OUT_YANG_COMPILED, 0)
    try:
        return ffi.string(text[0]).decode()
    finally:
        lib.free(text[0])


def test_every_module_is_compiled_to_what_it_is_in_sysrepo(data_switch, context):
    with data_switch.get_ly_ctx() as context_of_sysrepo:
        expected = compiled(context_of_sysrepo)
    assert set(OURS) <= set(expected)
    assert compiled(context) == expected


@pytest.mark.usefixtures("sysrepo_repository")
def test_submodules_features_deviations_and_older_revisions_come_along(tmp_path):
    for name, text in STRANGE.items():
        (tmp_path / f"{name}.yang").write_text(text)
    for module, *options in (("base", "--enable-feature", "on"), ("types",), ("other",)):
        file = max(tmp_path.glob(f"{module}@*"))
        subprocess.run(
            ["sysrepoctl", "--install", file, "--search-dirs", tmp_path, *options], check=True
        )
    with SysrepoConnection() as connection:
        with connection.get_ly_ctx() as context_of_sysrepo:
            expected = compiled(context_of_sysrepo)
        built = build(export(connection))
    assert compiled(built) == expected
    there = ("/base:c/kept", "/base:c/if-on", "/base:c/other:added", "/base:from-part/typed")
    assert all(next(built.find_path(path)).name() for path in there)
    with pytest.raises(LibyangError, match="length"):
        built.parse_data_mem(
            '<from-part xmlns="urn:base"><typed>four</typed></from-part>', "xml", parse_only=True
        )


@pytest.mark.parametrize("datastore", ["running", "operational"])
def test_data_are_printed_alike_in_both_processes(datastore, data_switch, context):
    options = WITH_ORIGIN if datastore == "operational" else 0
    with (
        data_switch.start_session(datastore) as session,
        get_data(session, "/*", options=options) as tree,
    ):
        lyb, expected = print_lyb(tree), printed(tree)
    parsed = parse_data(context, lyb)
    try:
        assert printed(parsed) == expected
    finally:
        parsed.free()
    assert ("origin=" in expected["explicit"]) == (datastore == "operational")
    if datastore == "running":
        assert len(set(expected.values())) == len(DEFAULTS_MODES), "the modes must differ"


def printed(tree):
    return {mode: print_xml(tree, mode, empty_containers=True) for mode in DEFAULTS_MODES}


def test_no_data_stay_no_data(context):
    assert parse_data(context, print_lyb(None)) is None


def test_data_in_json_are_parsed_as_those_in_lyb(context):
    given = '{"ietf-interfaces:interfaces":{"interface":[{"name":"p1","enabled":false}]}}'
    tree = parse_data(context, given.encode())
    try:
        assert print_json(tree) == given
        again = parse_data(context, print_lyb(tree))
        assert print_json(again) == given
        again.free()
    finally:
        tree.free()
    assert print_json(None) == "{}"


def test_a_process_without_a_free_descriptor_builds_the_context_and_selects(data_switch, exported):
    """Which also proves that no file is read: opening one needs a descriptor."""
    with data_switch.start_session("running") as session, get_data(session, IF) as tree:
        lyb = print_lyb(tree)
    without_descriptors = """
import resource, sys
from agent.sysrepo.data import parse_data, print_xml
from agent.sysrepo.schema_context import build
from agent.sysrepo.selection import needed_paths, select
length = int(sys.stdin.buffer.readline())
exported, lyb = sys.stdin.buffer.read(length), sys.stdin.buffer.read()
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
context = build(exported)
xpath = "/ietf-interfaces:interfaces/interface/name"
assert needed_paths(context, xpath) == (xpath,)
print(print_xml(select(parse_data(context, lyb), xpath), "explicit"))
"""
    ended = subprocess.run(
        [sys.executable, "-c", without_descriptors],
        input=b"%d\n%b%b" % (len(exported), exported, lyb),
        capture_output=True,
        check=False,
    )
    assert (ended.stderr, ended.returncode) == (b"", 0)
    assert b"<name>p1</name>" in ended.stdout


def test_a_text_that_is_no_yang_is_refused(exported):
    modules = json.loads(exported)
    for module in modules:
        if module["name"] == "tsn-linux":
            module["text"] = "module tsn-linux {"
    with pytest.raises(LibyangError, match="tsn-linux"):
        build(json.dumps(modules).encode())


def test_a_module_that_is_not_among_the_texts_is_looked_for_nowhere(
    exported, tmp_path, monkeypatch
):
    modules = json.loads(exported)
    (imported,) = [module for module in modules if module["name"] == "ieee802-types"]
    (tmp_path / "ieee802-types.yang").write_text(imported["text"])
    monkeypatch.setenv("YANGPATH", str(tmp_path))
    modules.remove(imported)
    with pytest.raises(LibyangError, match="ieee802-types"):
        build(json.dumps(modules).encode())
