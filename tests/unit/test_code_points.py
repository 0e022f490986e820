"""What is read of the tables of code points, and of what the kernel makes of them."""

from __future__ import annotations

import pytest
from lxml import etree

from cnc.data_tree.tree import BRIDGE, INTERFACES, TSN_LINUX, Recoding
from cnc.mechanisms.forwarding.code_points import (
    configured_trust,
    misleading,
    recoded,
    trust_in_kernel,
)

IDENTITY = "".join(f"<priority{p}>{p}</priority{p}>" for p in range(8))
REGENERATION = f"<priority-regeneration>{IDENTITY}</priority-regeneration>"


def data(bridge_port: str) -> etree._Element:
    """A reply about the port p1."""
    return etree.fromstring(
        f'<data><interfaces xmlns="{INTERFACES}"><interface><name>p1</name>'
        f'<bridge-port xmlns="{BRIDGE}">{bridge_port}</bridge-port></interface></interfaces></data>'
    )


def decoding(code_point: object, priority: object) -> str:
    return (
        "<pcp-decoding-table><pcp-decoding-map><pcp>8P0D</pcp><priority-map>"
        f"<priority-code-point>{code_point}</priority-code-point><priority>{priority}</priority>"
        "</priority-map></pcp-decoding-map></pcp-decoding-table>"
    )


def encoding(priority: int, code_point: int) -> str:
    return (
        "<pcp-encoding-table><pcp-encoding-map><pcp>8P0D</pcp><priority-map>"
        f"<priority>{priority}</priority><dei>false</dei>"
        f"<priority-code-point>{code_point}</priority-code-point>"
        "</priority-map></pcp-encoding-map></pcp-encoding-table>"
    )


def received(*priorities: int) -> str:
    rows = "".join(
        f"<received-priority><code-point>{pcp}</code-point><priority>{priority}</priority>"
        "</received-priority>"
        for pcp, priority in enumerate(priorities)
    )
    kernel = f"<kernel><bridged-frames>{rows}</bridged-frames></kernel>"
    return f'<taprio xmlns="{TSN_LINUX}">{kernel}</taprio>'


@pytest.mark.parametrize(
    ("bridge_port", "trusting"),
    [
        (REGENERATION, ("p1",)),
        (REGENERATION + decoding(5, 5), ("p1",)),
        (REGENERATION + decoding(5, 3), ()),
        (REGENERATION + encoding(5, 3), ("p1",)),
        (REGENERATION.replace(">5<", ">4<"), ()),
        (decoding(5, 5), ()),
    ],
)
def test_a_port_is_to_trust_the_pcp_if_it_neither_decodes_nor_regenerates_it(
    bridge_port: str, trusting: tuple[str, ...]
) -> None:
    assert configured_trust(data(bridge_port)) == trusting


@pytest.mark.parametrize(
    ("bridge_port", "trusting"),
    [
        (received(*range(8)), ("p1",)),
        (received(0, 1, 2, 3, 4, 3, 6, 7), ()),
        (received(*range(7)), ()),
        # What is configured is not what the kernel does.
        (REGENERATION, ()),
    ],
)
def test_the_kernel_trusts_the_pcp_where_each_filter_gives_its_value(
    bridge_port: str, trusting: tuple[str, ...]
) -> None:
    assert trust_in_kernel(data(bridge_port)) == trusting


def test_only_rows_that_change_something_are_recodings() -> None:
    port = decoding(5, 3) + encoding(6, 6)
    assert recoded(data(port)) == {"p1": (Recoding("pcp-decoding-table", 5, 3),)}
    assert recoded(data(decoding(5, 5) + encoding(6, 6))) == {}


def test_a_recoding_misleads_where_its_priorities_have_two_classes() -> None:
    rows = recoded(data(decoding(5, 3) + encoding(6, 7)))
    assert list(misleading(rows, (0, 0, 0, 0, 0, 0, 1, 2))) == [
        ("p1", Recoding("pcp-encoding-table", 6, 7))
    ]


@pytest.mark.parametrize("bridge_port", [decoding(9, 3), decoding(5, -1), decoding("x", 3)])
def test_a_row_that_names_no_priority_is_refused(bridge_port: str) -> None:
    with pytest.raises(ValueError, match=r"priority|invalid literal"):
        recoded(data(bridge_port))
