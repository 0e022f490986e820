"""`scripts/yang-effect`: every configurable node has an effect, and the table of them is true."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
TABLE = CHECKOUT / "yang" / "effect.toml"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "scripts" / "yang-effect", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_configurable_node_has_an_effect_or_is_not_supported():
    shown = run()
    assert (shown.returncode, shown.stderr) == (0, "")


def test_nodes_are_listed_as_json_with_what_shows_their_effect():
    nodes = {row["node"]: row for row in json.loads(run("--json").stdout)}
    port = "/ietf-interfaces:interfaces/interface/ieee802-dot1q-bridge:bridge-port"
    assert nodes[f"{port}/tsn-linux:taprio/mode"] == {
        "node": f"{port}/tsn-linux:taprio/mode",
        "supported": True,
        "kernel": "test_full_offload_is_handed_to_the_driver_and_read_back",
        "state": f"{port}/tsn-linux:taprio/kernel/mode",
    }
    assert nodes[f"{port}/pvid"] == {"node": f"{port}/pvid", "supported": False}


def test_a_node_that_the_table_leaves_out_is_named(tmp_path):
    table = tmp_path / "effect.toml"
    table.write_text(TABLE.read_text().replace('nodes = ["taprio/clock"]', "nodes = []"))

    shown = run("--table", table)

    assert shown.returncode == 1
    assert shown.stderr.count("\n") == 1
    assert "tsn-linux:taprio/clock: not in the table" in shown.stderr


def test_every_entry_that_is_not_true_is_named(tmp_path):
    table = tmp_path / "effect.toml"
    wrong = {
        "/no:such/node": 'test = "test_a_comment_on_a_rule_is_read_back"\naffects = "x"',
        "port/ieee802-dot1q-bridge:bridge-port/pvid": 'state = "port/oper-status"',
        "port/description": 'state = "port/type"',
        "/tsn-linux:rollout/id": 'test = "test_that_nobody_wrote"\naffects = "x"',
        "/tsn-linux:rollout/time": 'kernel = "test_a_comment_on_a_rule_is_read_back"',
        "nacm/enable-nacm": 'affects = "x"',
        "nacm/read-default": 'shown = "x"',
    }
    entries = "".join(f'[[effect]]\nnodes = ["{node}"]\n{text}\n' for node, text in wrong.items())
    table.write_text(TABLE.read_text().split("# Ports")[0] + entries)

    shown = run("--table", table)

    assert shown.returncode == 1
    for reason in (
        "/no:such/node: no configurable node",
        "bridge-port/pvid: not supported, by deviation",
        "description: /ietf-interfaces:interfaces/interface/type is not a state node",
        "rollout/id: no test is called test_that_nobody_wrote",
        "rollout/time: test_a_comment_on_a_rule_is_read_back is in tests/stack, not in",
        "(nacm/enable-nacm): none of kernel, test, state",
        "(nacm/read-default): unknown key shown",
    ):
        assert reason in shown.stderr


def test_a_table_that_cannot_be_read_is_an_input_error(tmp_path):
    table = tmp_path / "effect.toml"
    for text in (None, "[[effect\n"):
        if text:
            table.write_text(text)
        shown = run("--table", table)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert str(table) in shown.stderr
