"""The YANG of the UNI on the controller: what a stream is by its modules (yang/cnc), with yangson.

A body is validated as the one stream of a tree that has nothing else, so that its cost does not
grow with what is stored.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from yangson import DataModel
from yangson.enumerations import ContentType, ValidationScope
from yangson.exceptions import YangsonException

from cnc.service.uni.shown import MODULE, OURS
from cnc.service.web.errors import RestconfError

_MODULES = (
    (MODULE, "2024-01-31", f"urn:ieee:std:802.1Q:yang:{MODULE}", "implement"),
    (OURS, "2026-11-29", "urn:tsn-control-plane:yang:tsn-cnc", "implement"),
    (
        "ieee802-dot1q-tsn-types",
        "2022-10-29",
        "urn:ieee:std:802.1Q:yang:ieee802-dot1q-tsn-types",
        "import",
    ),
    ("ietf-inet-types", "2013-07-15", "urn:ietf:params:xml:ns:yang:ietf-inet-types", "import"),
)
# yangson compares each value of a leaf-list with all others; an interface has a dozen at most.
_LEAF_LIST_MAX = 64
_ROOT = f"{MODULE}:cnc-config"


def library() -> dict[str, Any]:
    """The modules, as `ietf-yang-library` of 2016 has them (RFC 7895)."""
    return {
        "ietf-yang-library:modules-state": {
            "module-set-id": "-".join(revision for _, revision, _, _ in _MODULES),
            "module": [
                {
                    "name": name,
                    "revision": revision,
                    "namespace": namespace,
                    "conformance-type": kind,
                }
                for name, revision, namespace, kind in _MODULES
            ],
        }
    }


@cache
def model() -> DataModel:
    """Loaded once in a worker: a tenth of a second."""
    with as_file(files("cnc") / "yang" / "cnc") as directory:
        return DataModel(json.dumps(library()), (str(directory),))


def stream(body: Any, cuc: str) -> dict[str, Any]:
    """A stream as the core stores it, of the configuration alone and without prefixes.

    Raises RestconfError, with the path of what is wrong.
    """
    _check_leaf_lists(body)
    tree = {_ROOT: {"domain": [{"domain-id": "-", "cuc": [{"cuc-id": cuc, "stream": [body]}]}]}}
    try:
        found = model().from_raw(tree)
        found.validate(ValidationScope.all, ContentType.config)
        plain = found.raw_value()
    except YangsonException as error:
        raise _wrong(str(error)) from error
    validated: dict[str, Any] = plain[_ROOT]["domain"][0]["cuc"][0]["stream"][0]
    return validated


def _check_leaf_lists(value: Any) -> None:
    """Raises RestconfError for one that is too long. Bodies are not deep (`bodies`)."""
    if isinstance(value, dict):
        for each in value.values():
            _check_leaf_lists(each)
    elif isinstance(value, list):
        entries = [each for each in value if isinstance(each, dict | list)]
        if len(value) - len(entries) > _LEAF_LIST_MAX:
            raise RestconfError(
                400, "invalid-value", f"a leaf-list has {_LEAF_LIST_MAX} values at most"
            )
        for each in entries:
            _check_leaf_lists(each)


def _wrong(text: str) -> RestconfError:
    """An error of yangson: `{PATH} tag: detail`, or `PATH detail`."""
    found = re.match(r"(?:\{(?P<braced>[^}]*)\}|(?P<bare>/\S*))\s*(?P<detail>.*)", text, re.DOTALL)
    path, detail = (found["braced"] or found["bare"], found["detail"]) if found else ("", text)
    below = path.partition("/stream")[2]
    return RestconfError(
        400,
        "invalid-value",
        f"stream{below}: {detail or 'there is no such node'}",
        path=f"/{_ROOT}/domain/cuc/stream{below}",
    )
