"""Executes notebooks as Jupyter does, as far as those of the documentation need it: code in one
namespace, the value of a cell's last expression, text that is printed, and what matplotlib drew.

`python -m tests.notebooks FILE` stores these outputs in the file.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

PNG = "image/png"


def load(file: Path) -> dict[str, Any]:
    """A notebook with the outputs that are stored in it."""
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def execute(file: Path) -> dict[str, Any]:
    """The notebook of `file` with the outputs of its code, which runs in the folder of the file.

    What a cell raises is raised here.
    """
    document = load(file)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    with contextlib.chdir(file.parent), mpl.rc_context({"savefig.dpi": 100}):
        pyplot.switch_backend("agg")
        for number, cell in enumerate(code, start=1):
            cell["execution_count"] = number
            cell["outputs"] = list(_outputs("".join(cell["source"]), number, namespace))
    return document


def texts(document: dict[str, Any]) -> list[str]:
    """What the cells of a notebook have put out, without pictures."""
    return ["".join(its.get("text") or its["data"]["text/plain"]) for its in _all(document)]


def pictures(document: dict[str, Any]) -> list[bytes]:
    """What its cells have drawn, as PNG."""
    drawn = [its["data"][PNG] for its in _all(document) if PNG in its.get("data", {})]
    return [base64.b64decode(each) for each in drawn]


def _all(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for cell in document["cells"] for output in cell.get("outputs", [])]


def _outputs(source: str, number: int, namespace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    tree = ast.parse(source)
    shown = None
    # A semicolon at the end says that the value is not to be shown.
    if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        shown = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {number}", "exec"), namespace)  # noqa: S102  a notebook's code
        value = eval(compile(shown, f"cell {number}", "eval"), namespace) if shown else None  # noqa: S307
    if text := printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": _lines(text)}
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        yield {
            "data": data,
            "execution_count": number,
            "metadata": {},
            "output_type": "execute_result",
        }
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", bbox_inches="tight", metadata={"Software": None})
        picture = base64.b64encode(drawn.getvalue()).decode()
        data = {PNG: picture, "text/plain": ["<Figure>"]}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}
    pyplot.close("all")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    its_file = Path(sys.argv[1])
    text = json.dumps(execute(its_file), indent=1, ensure_ascii=False)
    its_file.write_text(text + "\n", encoding="utf-8")
