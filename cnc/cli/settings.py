"""Options that are given once, for every call: in files and in the environment.

    command line > CNC_<COMMAND>_<OPTION> > CNC_<OPTION> > user's file > system's file > default

Keys have the names of the options. A file is TOML; what holds for every command stands first:

    known-hosts = "~/lab/known_hosts"

    [plan]                  # `cnc plan`
    algorithm = "exact"

    [lab.traffic]           # `cnc lab traffic`
    duration = "2s"

Only the options in `SHARED` can stand above the first table.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from cnc.errors import InputError
from cnc.support import directories, whole_file

SYSTEM_FILE = Path("/etc/cnc/config.toml")
SHARED = ("identity", "known-hosts", "ssh-config", "timeout", "state-dir")

Words = tuple[str, ...]
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_META = f"{__name__}.settings"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the files say. `default_map` is click's; `where` tells `FILE:LINE` of a command's words
    and a key."""

    files: tuple[Path, ...]
    default_map: dict[str, Any] = field(default_factory=dict)
    where: dict[tuple[Words, str], str] = field(default_factory=dict)


def user_file() -> Path:
    return directories.config_dir().expanduser() / "config.toml"


def commands(root: click.Group, words: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    """Every command below `root` with the words that call it; `root` itself first."""
    yield words, root
    for name, command in root.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def settable(command: click.Command) -> dict[str, click.Option]:
    """The options of a command that a file or the environment can set, by key.

    One that may be repeated belongs to one call alone.
    """
    return {
        key(option): option
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value and not option.multiple
    }


def key(option: click.Option) -> str:
    """The option's long name without its dashes."""
    return max(option.opts, key=len).lstrip("-")


def name_variables(root: click.Group) -> None:
    """Let every option of every command be given in the environment."""
    for words, command in commands(root):
        for name, option in settable(command).items():
            option.envvar = [_variable(*words, name)]
            if name in SHARED:
                option.envvar.append(_variable(name))


def _variable(*words: str) -> str:
    return "_".join(["CNC", *words]).upper().replace("-", "_")


def load(context: click.Context, file: Path | None) -> Settings:
    """Let `file` say the defaults of the command of `context`, and of all below it.

    Without a `file` the system's and the user's do, as far as they are there.

    Raises:
        InputError: a file is not what it must be.
    """
    files = [file] if file else [f for f in (SYSTEM_FILE, user_file()) if _is_there(f)]
    found = Settings(tuple(files))
    for each in files:
        _File(each, found, context).read()
    context.default_map = found.default_map
    context.meta[_META] = found
    return found


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # as in the home of another user; whoever reads it says so
        return True


def settings_of(context: click.Context) -> Settings:
    """What `load` found for this call."""
    found: Settings = context.meta[_META]
    return found


def origin(context: click.Context, option: click.Parameter) -> str | None:
    """The variable, or the file and line, that an option of `context` has its value from."""
    source = context.get_parameter_source(option.name or "")
    if source is ParameterSource.ENVIRONMENT and isinstance(option.envvar, list):
        return next(str(name) for name in option.envvar if os.environ.get(name))
    if source is ParameterSource.DEFAULT_MAP and isinstance(option, click.Option):
        return settings_of(context).where[words_of(context), key(option)]
    return None


def words_of(context: click.Context) -> Words:
    """The words that call the command of `context`, without `cnc`."""
    if context.parent is None:
        return ()
    return (*words_of(context.parent), context.info_name or "")


class InForce(NamedTuple):
    """An option, its value, and the file and line or the variable that says so; None: nobody."""

    name: str
    value: str
    origin: str | None


def in_force(root: click.Context) -> list[InForce]:
    """The options of all commands that are set, and the shared ones with their defaults.

    An option's name is its place in a file, `plan.algorithm`; without a table, `identity`, it is
    what holds for every command that is not listed with its own.
    """
    assert isinstance(root.command, click.Group)  # noqa: S101  it is `cnc`
    found = [row for words, _ in commands(root.command) for row in _in_force(root, words)]
    usual = []
    for name in SHARED:
        alike = Counter(row._replace(name=name) for row in found if _last(row) == name)
        usual.append(alike.most_common(1)[0][0])
    return usual + [
        row for row in found if row.origin and row._replace(name=_last(row)) not in usual
    ]


def _in_force(context: click.Context, words: Words) -> Iterator[InForce]:
    """The options of one command that are set or shared. Below `context` nothing is run."""
    for word in words:
        above = context.command
        assert isinstance(above, click.Group)  # noqa: S101  it has a command below
        context = click.Context(above.commands[word], context, word)
    for name, option in settable(context.command).items():
        value, source = option.consume_value(context, {})
        context.set_parameter_source(option.name or "", source)
        at = origin(context, option)
        if at or name in SHARED:
            its = value if at else option.get_default(context)
            yield InForce(".".join([*words, name]), str(its), at)


def _last(row: InForce) -> str:
    return row.name.rpartition(".")[2]


class _File:
    """Takes one file into settings; every refusal names the file, the line and the key."""

    def __init__(self, path: Path, into: Settings, context: click.Context) -> None:
        self._path = path
        self._into = into
        self._root = context.command
        self._lines: Sequence[str] = []

    def read(self) -> None:
        import tomllib  # noqa: PLC0415

        try:
            whole_file.refuse_special(self._path)
            text = self._path.read_text(encoding="utf-8")
            document = tomllib.loads(text)
        except OSError as error:
            raise InputError(
                f"{self._path}: cannot read it: {error.strerror}",
                hint="--config and CNC_CONFIG name another file",
            ) from error
        except ValueError as error:  # not UTF-8, or not TOML
            raise InputError(f"{self._path}: not TOML: {error}", hint=_HINT) from error
        self._lines = text.splitlines()
        self._table(self._root, (), document)

    def _table(self, command: click.Command, words: Words, table: Mapping[str, Any]) -> None:
        own = settable(command)
        below = command.commands if isinstance(command, click.Group) else {}
        shared = SHARED if not words else ()
        # What holds for every command first: a command's own table says better.
        for name, value in sorted(table.items(), key=lambda its: isinstance(its[1], dict)):
            if name in below:
                if not isinstance(value, dict):
                    raise self._refusal(words, name, f"found {value!r}, expected a table", _HINT)
                self._table(below[name], (*words, name), value)
            elif name in own:
                self._take(words, own[name], value)
            elif name in shared:
                self._take_everywhere(name, value)
            else:
                raise self._unknown(words, name, [*below, *own, *shared])

    def _take_everywhere(self, name: str, value: object) -> None:
        assert isinstance(self._root, click.Group)  # noqa: S101  it is `cnc`
        for words, command in commands(self._root):
            if option := settable(command).get(name):
                self._take(words, option, value, at=((), name))

    def _take(
        self,
        words: Words,
        option: click.Option,
        value: object,
        at: tuple[Words, str] | None = None,
    ) -> None:
        where = at or (words, key(option))
        if expected := _misfit(option, value):
            raise self._refusal(*where, f"found {value!r}, expected {expected}", _HINT)
        table = self._into.default_map
        for word in words:
            table = table.setdefault(word, {})
        table[option.name or ""] = value
        self._into.where[words, key(option)] = self._place(*where)

    def _unknown(self, words: Words, name: str, known: Sequence[str]) -> InputError:
        command = " ".join(["cnc", *words])
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"do you mean {close[0]}?" if close else f"`{command} --help` names the options"
        return self._refusal(words, name, f"no such option of `{command}`", hint)

    def _refusal(self, words: Words, name: str, why: str, hint: str) -> InputError:
        dotted = ".".join([*words, name])
        return InputError(f"{self._place(words, name)}: {dotted}: {why}", hint=hint)

    def _place(self, words: Words, name: str) -> str:
        line = self._line(words, name)
        return f"{self._path}:{line}" if line else str(self._path)

    def _line(self, words: Words, name: str) -> int | None:
        """Where a key stands, as nearly always written: tomllib does not tell."""
        wanted = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*=""")
        table: Words = ()
        for number, line in enumerate(self._lines, start=1):
            if header := _TABLE.fullmatch(line):
                table = tuple(part.strip(" \t\"'") for part in header[1].split("."))
                if table == (*words, name):
                    return number
            elif table == words and wanted.match(line):
                return number
        return None


_HINT = "docs/operate/cli.md shows how a file looks"


def _misfit(option: click.Option, value: object) -> str | None:
    """What an option expects that cannot take a value of this kind from TOML."""
    if option.is_flag:
        return None if type(value) is bool else "true or false"
    if option.nargs > 1:
        fits = isinstance(value, list) and len(value) == option.nargs
        return None if fits else f"a list of {option.nargs} texts"
    if isinstance(option.type, click.types.FloatParamType):
        return None if type(value) in {int, float} else "a number"
    if isinstance(option.type, click.types.IntParamType):
        return None if type(value) is int else "a whole number"
    return None if isinstance(value, str) else "a text"
