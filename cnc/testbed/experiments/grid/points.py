"""The points of a grid: an experiment file with other values for some of its keys, or for keys of
the intent that it names.

A point is two files of its own, so that it is an experiment like any other: whoever has them runs
it again, with what other files it names where they are. All points are checked before the first is
written.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cnc import intent as intents
from cnc.errors import InputError, Unschedulable
from cnc.intent.replacing import path_of, with_value
from cnc.intent.source import dump, parse
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.shape import Document
from cnc.support import whole_file
from cnc.testbed import experiments
from cnc.testbed.experiments.description import description_of, kind_of
from cnc.testbed.experiments.experiment import Experiment, OnKernels
from cnc.testbed.experiments.keys import Description, NetworkDescription

EXPERIMENT = "experiment.yaml"
INTENT = "intent.yaml"

_OF_EXPERIMENT, _OF_INTENT = "experiment", "network"  # prefixes of keys
_NAME_CHARACTERS_MAX = 120
_LAB_NAME_CHARACTERS_MAX = 63


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A key and the values that it takes, one in a run; `key` is as it was written."""

    key: str
    path: KeyPath
    of_intent: bool
    values: Sequence[object]


@dataclass(frozen=True, slots=True)
class Point:
    """A run with one value of each key. `name` is that of its directory in the grid's.

    `values` are texts by key as it was written, `varied` the keys that take several in the grid.
    `files` are those that describe the run, by name; the intent is there if the experiment
    names one.
    """

    name: str
    values: Mapping[str, str]
    varied: Sequence[str]
    files: Mapping[str, str]
    sources: Sequence[Path]  # what it was read from
    experiment: Experiment | None  # None where its streams have no plan: the run says why

    def write(self, directory: Path) -> Path:
        """Write the files into `directory`, which is made; the experiment's path.

        Raises:
            InputError: they cannot be written, or would replace what they were read from.
        """
        for target in (directory / name for name in self.files):
            if target.exists() and any(target.samefile(source) for source in self.sources):
                raise InputError(
                    f"{target}: found what this run is described by, expected a free place for it",
                    hint="name another directory with -o",
                )
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            whole_file.write(directory / name, text)
        return directory / EXPERIMENT


def points(file: Path, texts: Sequence[str]) -> list[Point]:
    """The product of the values of `KEY=VALUE[,VALUE...]`; the last key varies fastest.

    A key that experiments of this kind have is looked for in `file`, one that intents have in the
    intent that it names. One that both have needs `experiment.` or `network.` before it.

    Raises:
        InputError: a file, a key or a value is wrong; of a value, as the loader of its file says.
    """
    read = intents.read(file)
    read.raise_if_any()
    settings = _settings(texts, kind_of(read))
    combinations = list(itertools.product(*(each.values for each in settings)))
    originals: dict[Path, Problems] = {}
    return [
        _point(file, read, originals, dict(zip(settings, chosen, strict=True)), number)
        for number, chosen in _numbered(combinations)
    ]


def _numbered(
    combinations: Sequence[tuple[object, ...]],
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Each with its number, all of the same length; the only one has none."""
    if len(combinations) == 1:
        yield "", combinations[0]
        return
    digits = len(str(len(combinations)))
    for number, chosen in enumerate(combinations, start=1):
        yield f"{number:0{digits}}", chosen


# --- keys and values ------------------------------------------------------------------------------


def _settings(texts: Sequence[str], kind: type[Description]) -> list[Setting]:
    settings: list[Setting] = []
    for text in texts:
        setting = _setting(text, kind)
        if any((setting.path, setting.of_intent) == (its.path, its.of_intent) for its in settings):
            raise InputError(
                f"--set {text}: found {setting.key} a second time, expected each key once",
                hint="write its values after one another: --set KEY=VALUE,VALUE",
            )
        settings.append(setting)
    return settings


def _setting(text: str, kind: type[Description]) -> Setting:
    key, equals, values = text.partition("=")
    try:
        path = path_of(key)
    except ValueError as expected:
        raise InputError(f"--set {text}: found the key {key!r}, expected {expected}") from None
    if not equals:
        raise InputError(f"--set {text}: found no value, expected KEY=VALUE[,VALUE...]")
    of_intent = _is_of_intent(text, path, kind)
    if path[0] == (_OF_INTENT if of_intent else _OF_EXPERIMENT) and path[1:]:
        path = path[1:]
    return Setting(key, path, of_intent, _values(text, values))


def _is_of_intent(text: str, path: KeyPath, kind: type[Description]) -> bool:
    """Whether a key is one of the intent. Raises InputError if it is neither's, or both's."""
    own = {str(its.alias) for its in kind.model_fields.values()}
    has_intent = issubclass(kind, NetworkDescription)
    of_intents = {str(its.alias) for its in Document.model_fields.values()} if has_intent else set()
    first = str(path[0])
    if path[1:] and first == _OF_EXPERIMENT:
        return False
    if path[1:] and first == _OF_INTENT and has_intent:
        return True
    if first in own & of_intents:
        raise InputError(
            f"--set {text}: found a key that both the experiment and its intent have",
            hint=f"write {_OF_EXPERIMENT}.{first} or {_OF_INTENT}.{first}",
        )
    if first not in own | of_intents:
        expected = one_of(own | of_intents, first)
        raise InputError(f"--set {text}: found the unknown key {shown(first)}, expected {expected}")
    return first in of_intents


def _values(text: str, values: str) -> list[object]:
    """The values as files would have them: `500us,[0, 50],{from: 1, to: 2}` are three."""
    found = parse(f"[{values}]".encode(), f"--set {text}")
    found.raise_if_any()
    read: list[object] = found.document
    if not read or None in read:
        raise InputError(f"--set {text}: found no value, expected KEY=VALUE[,VALUE...]")
    texts = [_written(value) for value in read]
    if twice := next((its for n, its in enumerate(texts) if its in texts[:n]), None):
        raise InputError(f"--set {text}: found {twice} a second time, expected each value once")
    return read


def _written(value: object) -> str:
    """A value in one line, as in a file."""
    if isinstance(value, str):
        return value
    width = float("inf")
    return yaml.safe_dump([value], default_flow_style=True, width=width).strip()[1:-1]


# --- points ---------------------------------------------------------------------------------------


def _point(
    file: Path,
    read: Problems,
    originals: dict[Path, Problems],
    chosen: Mapping[Setting, object],
    number: str,
) -> Point:
    """The point in which each setting has the value chosen."""
    values = {setting.key: _written(value) for setting, value in chosen.items()}
    words = " ".join(f"--set {key}={value}" for key, value in values.items())
    try:
        document = _with(read, chosen, of_intent=False)
        description = description_of(document)
        intent, sources = None, [file]
        if isinstance(description, NetworkDescription):
            path = file.parent / description.network
            sources.append(path)
            original = originals.get(path) or originals.setdefault(path, intents.read(path))
            intent = _with(original, chosen, of_intent=True)
            intents.intent_of(intent)
        experiment = _experiment(description, file, intent)
    except InputError as error:
        error.hint = f"this is with {words}"
        raise
    its_name = description.name
    if number and isinstance(experiment, OnKernels):
        # Labs of kernels share this machine, which has one lab of a name.
        its_name = f"{its_name[: _LAB_NAME_CHARACTERS_MAX - 1 - len(number)]}-{number}"
    written = {**document.document, "name": its_name}
    for key in type(description).file_keys():
        if key in written:
            written[key] = str((file.parent / written[key]).resolve())
    files = {}
    if intent:
        written["network"] = INTENT
        files[INTENT] = _text(intent, chosen, words)
    files[EXPERIMENT] = f"# {file} with {words}\n{dump(written)}"
    varied = [setting.key for setting in chosen if len(setting.values) > 1]
    slug = re.sub(r"[^A-Za-z0-9_.,=+-]+", "_", ",".join(f"{key}={values[key]}" for key in varied))
    name = f"{number}-{slug}"[:_NAME_CHARACTERS_MAX] if number else ""
    return Point(name, values, varied, files, sources, experiment)


def _with(problems: Problems, chosen: Mapping[Setting, object], *, of_intent: bool) -> Problems:
    for setting, value in chosen.items():
        if setting.of_intent == of_intent:
            problems = with_value(problems, setting.path, value)
    return problems


def _text(intent: Problems, chosen: Mapping[Setting, object], words: str) -> str:
    """An intent as a file: the operator's own, unless a key of it is set."""
    if not any(setting.of_intent for setting in chosen):
        return intent.text
    return f"# {intent.source} with {words}\n{dump(intent.document)}"


def _experiment(description: Description, file: Path, intent: Problems | None) -> Experiment | None:
    """The experiment, from which the description and the intent have to fit each other."""
    with tempfile.TemporaryDirectory() as scratch:
        if intent:
            network = Path(scratch, INTENT)
            network.write_text(dump(intent.document))
            description = description.model_copy(update={"network": str(network)})
        try:
            return experiments.experiment_of(description, file)
        except Unschedulable:
            return None
