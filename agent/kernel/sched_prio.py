"""pyroute2 plugin for the prio queueing discipline (`struct tc_prio_qopt`; tc-prio(8)).

pyroute2's own reads the discipline, and cannot set it. Registered in its place
(`agent.kernel.tc_plugins`):

    ipr.tc("add", "prio", index, handle, bands=2, priomap=bytes(16))
"""

# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT

parent = TC_H_ROOT


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request: the number of bands, and the band of each skb priority."""
    return {"bands": kwarg["bands"], "priomap": kwarg["priomap"]}


class options(nla):  # noqa: N801  the name that pyroute2 looks for
    """`TCA_OPTIONS`."""

    fields = (("bands", "i"), ("priomap", "16s"))
