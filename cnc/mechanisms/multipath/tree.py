"""The paths of end stations in `tsn-multipath`: set, read back, and as they are reported."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import NETCONF
from cnc.mechanism import PlaceEdit
from cnc.mechanisms.multipath.model import (
    LIMIT_MAX,
    Endpoint,
    Mode,
    Path,
    PathReport,
    Settings,
    StationPath,
)

MULTIPATH = "urn:tsn-control-plane:yang:tsn-multipath"
_MP = ElementMaker(namespace=MULTIPATH, nsmap={None: MULTIPATH})
_LEAVES = reply.Leaves(MULTIPATH)
_NAMESPACES = {"m": MULTIPATH}
_OPERATION = f"{{{NETCONF}}}operation"
_REMOVE, _REPLACE = ({_OPERATION: each} for each in ("remove", "replace"))


def filters() -> list[Element]:
    """Of all of it, configuration and state."""
    return [_MP("multipath")]


def edit(parts: Mapping[str, StationPath], its: PlaceEdit) -> list[Element]:
    """Sets these paths and, with them, the settings of the station. Of a station without settings
    all goes."""
    settings = next((each.settings for each in parts.values() if each.settings), None)
    if settings is None:
        return [_MP("multipath", _REMOVE)] if parts else []
    for name, each in parts.items():
        if each.path:
            its.interfaces.of(name)  # which a path refers to
    return [
        _MP(
            "multipath",
            *_settings(settings),
            *(_path(name, each.path) for name, each in sorted(parts.items())),
        )
    ]


def _path(name: str, path: Path | None) -> Element:
    if path is None:
        return _MP("path", _REMOVE, _MP("interface", name))
    return _MP(
        "path",
        _REPLACE,
        _MP("interface", name),
        _MP("backup", _text(path.backup)),
        _MP("announce", _text(path.announce)),
    )


def _settings(its: Settings) -> Iterator[Element]:
    """What is not stated goes: the station then has what it had before."""
    yield _MP("enabled", _text(its.enabled))
    yield _MP("default-mode", str(its.mode))
    yield _MP(
        "limits",
        _REPLACE,
        _MP("subflows", str(its.subflows)),
        _MP("add-addr-accepted", str(its.add_addr_accepted)),
    )
    if its.scheduler is None:
        yield _MP("scheduler", _REMOVE)
    else:
        yield _MP("scheduler", its.scheduler)
    tuning = {
        "congestion-control": its.congestion_control,
        "no-metrics-save": its.no_metrics_save,
        "maximum-buffer": its.max_buffer_octets,
    }
    leaves = (_MP(name, _text(value)) for name, value in tuning.items() if value is not None)
    yield _MP("tuning", _REPLACE, *leaves)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def stored(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, StationPath]:
    """The paths that are configured, by port."""
    node = _multipath(whole)
    if node is None:
        return {}
    settings = _stored_settings(node)
    return {
        _LEAVES.required(each, "interface"): StationPath(
            Path(_is_true(each, "backup"), _is_true(each, "announce")), settings
        )
        for each in reply.entries(node, "m:path", _NAMESPACES)
    }


def _stored_settings(node: Element) -> Settings:
    def number(path: str, otherwise: int) -> int:
        found = _LEAVES.optional_number(node, path)
        return otherwise if found is None else found

    saved = _LEAVES.text(node, "tuning/no-metrics-save")
    return Settings(
        mode=Mode(_LEAVES.text(node, "default-mode") or Mode.HASSLE_FREE),
        enabled=_LEAVES.text(node, "enabled") != "false",
        subflows=number("limits/subflows", LIMIT_MAX),
        add_addr_accepted=number("limits/add-addr-accepted", LIMIT_MAX),
        scheduler=_LEAVES.text(node, "scheduler"),
        congestion_control=_LEAVES.text(node, "tuning/congestion-control"),
        no_metrics_save=None if saved is None else saved == "true",
        max_buffer_octets=_LEAVES.optional_number(node, "tuning/maximum-buffer"),
    )


def reported(whole: Reply, _bridges: Collection[str] = ()) -> dict[str, PathReport]:
    """What the kernel has at ports with endpoints or paths, whoever has made them."""
    node = _multipath(whole)
    if node is None:
        return {}
    kernel = next(reply.rows(node, "m:kernel", _NAMESPACES), None)
    return {
        _LEAVES.required(each, "interface"): PathReport(
            managed=_is_true(each, "managed"),
            lack=_LEAVES.text(each, "lack"),
            endpoints=tuple(
                Endpoint(
                    _LEAVES.required(its, "address"),
                    frozenset(_LEAVES.required(its, "flags").split()),
                    _is_true(its, "managed"),
                )
                for its in reply.entries(each, "m:endpoint", _NAMESPACES)
            ),
            kernel=kernel.leaves if kernel else {},
        )
        for each in reply.entries(node, "m:path-state", _NAMESPACES)
    }


def _is_true(parent: Element, leaf: str) -> bool:
    return _LEAVES.text(parent, leaf) == "true"


def _multipath(whole: Reply) -> Element | None:
    found: Element | None = whole.data.find("m:multipath", _NAMESPACES)
    return found
