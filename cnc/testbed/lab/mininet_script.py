"""Reads the network that a Python script builds by itself, without running the script.

Scripts for Mininet and Containernet build a `Mininet()` node by node; those for IPMininet have an
`IPTopo` whose `build` does, and IPMininet is in no Debian package. Running either would start the
network. So their statements are followed: constants, names, texts, lists, loops over what is known
and calls of the script's own functions. What else there is, such as commands for nodes, is passed
over; where a node, a link or a loop over these depends on it, that line is refused.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnc.errors import InputError
from cnc.keys.problems import one_of

# What is called to build a network, and the base of classes that describe one.
NETWORKS = frozenset({"Mininet", "Containernet", "IPNet"})
TOPOLOGY = "IPTopo"
HOSTS = frozenset({"addHost", "addDocker"})
ROUTERS = frozenset({"addRouter", "addRouters"})
SWITCHES = frozenset({"addSwitch"}) | ROUTERS
# Of a network that is complete then; what follows is about one that runs.
COMPLETE = frozenset({"build", "start"})
WITHOUT_EQUIVALENT = frozenset({"addStation", "addAccessPoint", "addHub"})

STEPS_MAX = 100_000
DEPTH_MAX = 20

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# Of texts and lists; a script that needs more is no description of a network.
_LENGTH_MAX = 10**5
_WIDE = re.compile(r"\d{4,}")  # a width by which a short text becomes a long one


def _range(*limits: int) -> range:
    found = range(*limits)
    if len(found) > _LENGTH_MAX:
        raise ValueError
    return found


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "dict": dict,
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "int": int,
    "len": len,
    "list": list,
    "range": _range,
    "reversed": lambda values: list(reversed(values)),
    "sorted": sorted,
    "str": str,
    "tuple": tuple,
    "zip": lambda *values: list(zip(*values, strict=False)),
}
_TEXTS = frozenset({"format", "join", "lower", "upper", "strip", "split"})


class _Unknown:
    """What cannot be told without running the script."""


_UNKNOWN = _Unknown()


class _Network:
    """The network, or the topology, that the script builds."""


class _Complete(Exception):
    """The script starts what it has built."""


class _Returned(Exception):
    """A function's value."""


@dataclass(frozen=True, slots=True)
class _Node:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class _Script:
    """Follows one script."""

    file: Path
    functions: Mapping[str, ast.FunctionDef]
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    links: list[dict[str, Any]] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    has_routers: bool = False
    steps: int = 0
    depth: int = 0

    def refused(self, at: ast.AST, found: str, hint: str) -> InputError:
        return InputError(f"{self.file}:{getattr(at, 'lineno', 1)}: {found}", hint=hint)

    # --- statements

    def run(self, body: Iterable[ast.stmt], names: dict[str, Any]) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise self.refused(
                    statement, f"more than {STEPS_MAX:,} steps", "name fewer nodes and links"
                )
            self._statement(statement, names)

    def _statement(self, statement: ast.stmt, names: dict[str, Any]) -> None:  # noqa: C901, PLR0912
        match statement:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value, names)
                for target in targets:
                    self._assign(target, found, names)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value, names), names)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                names[name] = self._binary(op, names.get(name), self.value(value, names))
            case ast.Expr(value=value):
                self.value(value, names)
            case ast.Return(value=value):
                raise _Returned(self.value(value, names) if value else None)
            case ast.For(target=target, iter=values, body=body):
                self._loop(statement, target, self.value(values, names), body, names)
            case ast.If(test=test, body=body, orelse=orelse):
                self._condition(test, body, orelse, names)
            case ast.While():
                if _builds(statement):
                    raise self.refused(
                        statement, "nodes or links in a `while` loop", "write it as a `for` loop"
                    )
            case ast.With(body=body):
                self.run(body, names)
            case ast.Try(body=body):
                self.run(body, names)
            case _:
                pass  # definitions are known, imports say nothing

    def _loop(
        self,
        at: ast.For,
        target: ast.expr,
        values: object,
        body: list[ast.stmt],
        names: dict[str, Any],
    ) -> None:
        if not isinstance(values, list | tuple | range | dict | str):
            if _builds(at):
                raise self.refused(
                    at,
                    f"nodes or links in a loop over {ast.unparse(at.iter)}, which is known only "
                    "when the script runs",
                    "write the values into the script",
                )
            return
        for each in values:
            self._assign(target, each, names)
            self.run(body, names)

    def _condition(
        self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], names: dict[str, Any]
    ) -> None:
        found = self.value(test, names)
        if not isinstance(found, _Unknown):
            self.run(body if found else orelse, names)
        elif any(map(_builds, (*body, *orelse))):
            raise self.refused(
                test,
                f"nodes or links where {ast.unparse(test)}, which is known only when the script "
                "runs",
                "write the network without this condition",
            )

    def _assign(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = value
            case ast.Tuple(elts=each) | ast.List(elts=each):
                known = isinstance(value, list | tuple) and len(value) == len(each)
                for part, its in zip(each, value if known else [_UNKNOWN] * len(each), strict=True):
                    self._assign(part, its, names)
            case ast.Attribute():
                names[ast.unparse(target)] = value
            case ast.Subscript(value=whole, slice=place):
                its, key = self.value(whole, names), self.value(place, names)
                if isinstance(its, dict | list) and not isinstance(key, _Unknown):
                    its[key] = value
            case _:
                pass

    # --- expressions

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        """What an expression is; `_UNKNOWN` where only a run could tell."""
        try:
            return self._value(node, names)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return _UNKNOWN

    def _value(self, node: ast.expr, names: dict[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return names.get(name, _UNKNOWN)
            case ast.Attribute():
                return names.get(ast.unparse(node), _UNKNOWN)
            case ast.List(elts=each):
                return [self.value(its, names) for its in each]
            case ast.Tuple(elts=each):
                return tuple(self.value(its, names) for its in each)
            case ast.Dict(keys=keys, values=values):
                return {
                    self.value(key, names): self.value(its, names)
                    for key, its in zip(keys, values, strict=True)
                    if key
                }
            case ast.JoinedStr(values=values):
                return "".join(self._formatted(its, names) for its in values)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left, names), self.value(right, names))
            case ast.UnaryOp(op=ast.USub(), operand=its):
                return -self.value(its, names)
            case ast.UnaryOp(op=ast.Not(), operand=its):
                found = self.value(its, names)
                return found if isinstance(found, _Unknown) else not found
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                sides = self.value(left, names), self.value(right, names)
                unknown = any(isinstance(side, _Unknown) for side in sides)
                return _UNKNOWN if unknown else _COMPARISONS[type(op)](*sides)
            case ast.Subscript(value=whole, slice=place):
                return self.value(whole, names)[self.value(place, names)]
            case ast.ListComp(elt=elt, generators=[ast.comprehension(ifs=[]) as each]):
                return [self.value(elt, its) for its in self._each(each, names)]
            case ast.Call():
                return self._call(node, names)
        return _UNKNOWN

    def _each(self, its: ast.comprehension, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for value in self.value(its.iter, names):
            inner = dict(names)
            self._assign(its.target, value, inner)
            yield inner

    def _formatted(self, node: ast.expr, names: dict[str, Any]) -> str:
        if not isinstance(node, ast.FormattedValue):
            return str(self.value(node, names))
        found = self.value(node.value, names)
        if isinstance(found, _Unknown):
            raise TypeError
        spec = "" if node.format_spec is None else str(self.value(node.format_spec, names))
        if _WIDE.search(spec):
            raise ValueError
        return format(str(found) if isinstance(found, _Node) else found, spec)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(left, _Unknown) or isinstance(right, _Unknown) or type(op) not in _OPERATORS:
            return _UNKNOWN
        if isinstance(left, str) and isinstance(op, ast.Mod) and _WIDE.search(left):
            return _UNKNOWN
        if (isinstance(op, ast.Mult) and _length(left) * _length(right) > _LENGTH_MAX) or (
            _length(left) + _length(right) > 2 * _LENGTH_MAX
        ):
            return _UNKNOWN
        return _OPERATORS[type(op)](left, right)

    # --- calls

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:  # noqa: PLR0911
        match node.func:
            case ast.Name(id=name) if name in NETWORKS:
                return _Network()
            case ast.Name(id=name) if name in self.functions:
                return self.call(self.functions[name], node, names)
            case ast.Name(id=name) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*(self.value(each, names) for each in node.args))
            case ast.Attribute(value=whole, attr=name):
                its = self.value(whole, names)
                if isinstance(its, _Network):
                    return self._of_network(node, name, names)
                if isinstance(its, list) and name == "append":
                    return its.append(self.value(node.args[0], names))
                if isinstance(its, str) and name in _TEXTS and not _WIDE.search(its):
                    return getattr(its, name)(*(self.value(each, names) for each in node.args))
                if isinstance(its, dict) and name in {"items", "keys", "values"}:
                    return list(getattr(its, name)())
        for each in node.args:  # what is built on the way to an unknown function is built
            self.value(each, names)
        return _UNKNOWN

    def call(self, function: ast.FunctionDef, node: ast.Call, names: dict[str, Any]) -> Any:
        """The value of a function of the script, for the arguments of a call."""
        if self.depth == DEPTH_MAX:
            raise self.refused(node, f"calls {DEPTH_MAX} deep", "write the network without them")
        parameters = function.args.args
        defaults = function.args.defaults
        inner = {name: value for name, value in names.items() if name not in self.functions}
        first = len(parameters) - len(defaults)
        for its, default in zip(parameters[first:], defaults, strict=True):
            inner[its.arg] = self.value(default, names)
        for its, given in zip(parameters, node.args, strict=False):
            inner[its.arg] = self.value(given, names)
        for keyword in node.keywords:
            if keyword.arg:
                inner[keyword.arg] = self.value(keyword.value, names)
        self.depth += 1
        try:
            self.run(function.body, inner)
        except _Returned as returned:
            return returned.args[0]
        finally:
            self.depth -= 1
        return None

    def _of_network(self, node: ast.Call, name: str, names: dict[str, Any]) -> Any:
        if name in COMPLETE:
            raise _Complete
        arguments = [
            value
            for each in node.args
            for value in (
                self.value(each.value, names)
                if isinstance(each, ast.Starred)
                else [self.value(each, names)]
            )
        ]
        options = self._options(node, names)
        if name == "addRouters":
            return [self._node(node, name, its, options) for its in arguments]
        if name in HOSTS | SWITCHES:
            return self._node(node, name, arguments[0] if arguments else _UNKNOWN, options)
        if name == "addLinks":
            return [self._link(node, its[:2], {}) for its in arguments]
        if name == "addLink":
            return self._link(node, arguments[:2], options)
        if name == "get" and len(arguments) == 1:
            return self.nodes[arguments[0]]["node"]
        if name in WITHOUT_EQUIVALENT:
            raise self.refused(
                node,
                f"{name}: a lab has cables between switches and hosts alone",
                "use addHost, addSwitch and addLink",
            )
        return _UNKNOWN

    def _options(self, node: ast.Call, names: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for keyword in node.keywords:
            found = self.value(keyword.value, names)
            if keyword.arg is None:
                options.update(found if isinstance(found, dict) else {})
            elif found is not None:
                plain = isinstance(found, bool | int | float | str)
                options[keyword.arg] = found if plain else ast.unparse(keyword.value)
        return options

    def _node(self, at: ast.Call, method: str, name: object, options: Mapping[str, Any]) -> _Node:
        if not isinstance(name, str) or not name:
            raise self.refused(
                at,
                f"{method} of a name that is known only when the script runs",
                "write the name into the script",
            )
        if name in self.nodes:
            raise self.refused(at, f"a second node {name}", "give each node a name of its own")
        self.has_routers |= method in ROUTERS
        node = _Node(name)
        self.nodes[name] = {"node": node, "switch": method in SWITCHES, "options": dict(options)}
        return node

    def _link(self, at: ast.Call, ends: Sequence[object], options: Mapping[str, Any]) -> object:
        of_link = dict(options)
        shown = []
        for number, end in enumerate(ends, start=1):
            name = end.name if isinstance(end, _Node) else end
            if not isinstance(name, str) or name not in self.nodes:
                what = f"a node {name}" if isinstance(name, str) else "what is no known node"
                raise self.refused(at, f"a link of {what}", "add the node first, by its name")
            port = of_link.pop(f"port{number}", None)
            if not isinstance(port, int):
                port = self.ports.get(name, 0 if not self.nodes[name]["switch"] else 1)
            self.ports[name] = max(self.ports.get(name, 0), port + 1)
            shown.append([name, port])
        if len(shown) != 2:  # noqa: PLR2004  ends
            raise self.refused(at, "a link of one node", "name two")
        self.links.append({"ends": shown, "options": of_link})
        return _UNKNOWN


def _length(value: object) -> int:
    """How long a text or a list is; of a number, how long it makes one that is multiplied."""
    if isinstance(value, int):
        return abs(value)
    return len(value) if isinstance(value, str | list | tuple) else 1


def _calls(node: ast.AST) -> Iterator[str]:
    """The names of the functions and methods that are called somewhere in a node."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                yield name


def _builds(node: ast.AST) -> bool:
    building = HOSTS | SWITCHES | WITHOUT_EQUIVALENT | {"addLink", "addLinks"}
    return any(name in building for name in _calls(node))


def _makes_network(node: ast.AST) -> bool:
    """Whether a network is made there that no `Topo` describes."""
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Name)
        and each.func.id in NETWORKS
        and not each.args
        and all(keyword.arg != "topo" for keyword in each.keywords)
        for each in ast.walk(node)
    )


def _topologies(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {
        each.name: each
        for each in tree.body
        if isinstance(each, ast.ClassDef) and TOPOLOGY in map(ast.unparse, each.bases)
    }


def is_script(source: str) -> bool:
    """Whether a file builds its network by itself; False also where it is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    return bool(_topologies(tree)) or (_makes_network(tree) and _builds(tree))


def read(file: Path, source: str, chosen: str | None) -> dict[str, Any]:
    """The topology of a script, as `mininet_reader` has it of a Topo: `nodes` and `links`; `routed`
    where it has routers. `chosen` is its function, or its class, where it has several.

    Raises InputError: a part of the network is known only when the script runs, with its line.
    """
    tree = ast.parse(source)
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    classes = _topologies(tree)
    script = _Script(file, functions)
    makers = {name: its for name, its in functions.items() if _makes_network(its)}
    choices = [*classes, *makers]
    if chosen and chosen not in choices:
        raise InputError(f"{file}: no network {chosen}", hint=f"choose {one_of(choices)}")
    if len(choices) > 1 and not chosen:
        raise InputError(
            f"{file}: it builds several networks", hint=f"choose with --topo: {', '.join(choices)}"
        )
    name = chosen or (choices[0] if choices else None)
    names: dict[str, Any] = {}
    try:
        if name is None:
            script.run(_with_main(tree.body), names)
        else:
            script.run((each for each in tree.body if isinstance(each, ast.Assign)), names)
            if name in makers:
                script.call(makers[name], ast.Call(ast.Name(name), [], []), names)
            else:
                script.run(_build(file, classes[name]).body, {**names, "self": _Network()})
    except (_Complete, _Returned):
        pass
    if not script.nodes:
        raise InputError(
            f"{file}: it adds no node", hint="addHost and addSwitch of a network are read"
        )
    return {
        "nodes": [
            {"name": name, "switch": its["switch"], "options": its["options"]}
            for name, its in sorted(script.nodes.items(), key=lambda each: not each[1]["switch"])
        ],
        "links": script.links,
        "routed": script.has_routers,
    }


def _with_main(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those for when it is run as a program."""
    for each in body:
        if isinstance(each, ast.If) and "__name__" in ast.unparse(each.test):
            yield from each.body
        else:
            yield each


def _build(file: Path, topology: ast.ClassDef) -> ast.FunctionDef:
    for each in topology.body:
        if isinstance(each, ast.FunctionDef) and each.name == "build":
            return each
    raise InputError(
        f"{file}:{topology.lineno}: {topology.name} has no `build`",
        hint="its nodes and links are added there",
    )
