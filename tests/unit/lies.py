"""What a switch may do to a reply: leave out, rename, repeat or rewrite any of its nodes."""

from __future__ import annotations

import os
import random
import time
from copy import deepcopy
from functools import partial

import click
from click.testing import CliRunner
from lxml import etree

from cnc import cli
from cnc.errors import CncError
from tests.unit.lying_switches import NAMESPACES, state_data, stored_data

TEXTS = (
    *("-1", "0", "9" * 20, "9" * 4300, "-" + "9" * 4000, "9" * 4301, "1e5", "0x10", "", "text"),
    *("18446744073709551615", "9223372036854775807", "a\u009b31mb\u202e", "x" * 100_000, "\uff11"),
)
LONGEST_SLEEP_S = 60


def remove(node):
    """Leave the node out."""
    node.getparent().remove(node)


def rename(node):
    """Move the node into another namespace."""
    node.tag = "{urn:x}x"


def repeat(node):
    """Send the node many times."""
    for _ in range(200):
        node.getparent().append(deepcopy(node))


def deepen(node):
    """Put the node into itself, again and again."""
    for _ in range(100):
        node = etree.SubElement(node, node.tag)


def write(text, node):
    """Change the text of the node."""
    node.text = text


def comment(node):
    """Put a comment in front of the text."""
    node.insert(0, etree.Comment("x"))


def place(node):
    """The names from the top of a reply to a node."""
    return "/".join(str(each.tag) for each in [*reversed(list(node.iterancestors())), node][1:])


def places(plan, switch):
    """Where the nodes of all replies of a switch are that runs the plan."""
    replies = state_data(switch, plan), stored_data(switch, plan)
    return sorted({place(node) for data in replies for node in data.iter("*")})


def at(where, change):
    """Change the first node of a reply at this place."""

    def apply(data):
        root = data.getroottree().getroot()
        for node in data.iterdescendants("*"):
            names = [*reversed(list(node.iterancestors())), node]
            if "/".join(str(each.tag) for each in names[2 if root is not data else 1 :]) == where:
                change(node)
                return

    return apply


def say(where, text):
    """Change the text of all nodes of this name in a reply."""
    prefix, _, name = where.partition(":")

    def change(data):
        for node in data.iter(f"{{{NAMESPACES[prefix]}}}{name}"):
            node.text = text

    return change


def random_changes(where, seed, count):
    """Changes of replies, each at one of these places; the same ones for the same seed."""
    chosen = random.Random(seed)  # noqa: S311
    for _ in range(count):
        here = chosen.choice(where)
        texts = [partial(write, chosen.choice(TEXTS)) for _ in range(5)]
        yield at(here, chosen.choice([remove, rename, repeat, deepen, comment, *texts]))


def invoke(monkeypatch, words, keys=None):
    """The result of a command that sleeps for no switch; what is no error of ours is raised. Files
    of keys are made in the directory `keys`, for a command that needs them."""

    def sleep(wait_s):
        assert 0 <= wait_s <= LONGEST_SLEEP_S, f"a switch makes a command sleep for {wait_s} s"

    monkeypatch.setattr(time, "sleep", sleep)
    # The terminal of the test runner, or none, decides nothing here.
    monkeypatch.setenv("COLUMNS", "200")
    if keys:
        (keys / "identity").touch()
        words = [*words, "--identity", str(keys / "identity"), "--known-hosts", os.devnull]
    result = CliRunner().invoke(cli.cnc, words)
    ours = (SystemExit, CncError, click.exceptions.Exit, type(None))
    if not isinstance(result.exception, ours):
        raise result.exception
    return result
