"""The documents: every command block says where it runs, every link leads somewhere, every command
has its section. Running the blocks is `scripts/check-docs`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cnc.cli import cnc

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts/check-docs.d"))

from blocks import Block, Command, read  # noqa: E402
from output import alike  # noqa: E402

PAGES = [CHECKOUT / "README.md", *sorted(CHECKOUT.glob("docs/**/*.md"))]


def page(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "page.md"
    file.write_text(text)
    return file


def only_block(file: Path) -> Block:
    found = read(file)
    assert found.faults == []
    (block,) = found.blocks
    return block


def only_fault(file: Path) -> str:
    found = read(file)
    assert found.blocks == []
    (fault,) = found.faults
    return fault


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_every_block_of_a_page_says_where_it_runs(file: Path):
    assert read(file).faults == []


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_what_is_run_elsewhere_exists(file: Path):
    named = [name for block in read(file).blocks for name in block.covered_by]

    assert [name for name in named if not (CHECKOUT / name).exists()] == []


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_every_link_of_a_page_leads_somewhere(file: Path):
    broken = []
    for link in links(file.read_text()):
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target)
        ):
            broken.append(link)

    assert broken == []


def links(text: str) -> Iterator[str]:
    without_code = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if not re.match(r"[a-z]+:", link):
            yield link


def anchors(file: Path) -> set[str]:
    """The names that a Markdown renderer gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def test_every_page_is_reached_from_the_first_page_of_the_documentation():
    docs = CHECKOUT / "docs"
    linked = {link.partition("#")[0] for link in links((docs / "README.md").read_text())}
    pages = {str(file.relative_to(docs)) for file in docs.glob("**/*.md")}

    assert pages - linked == {"README.md"}


def test_the_reference_of_the_intent_file_is_what_the_schema_says_now():
    check = subprocess.run(
        [CHECKOUT / "scripts" / "intent-docs", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_every_command_has_a_section():
    headings = re.findall(r"^## (.+)$", (CHECKOUT / "docs/reference/commands.md").read_text(), re.M)

    assert [name for name in commands(cnc, "cnc") if name not in headings] == []


def test_every_command_has_a_line_in_the_readme():
    text = (CHECKOUT / "README.md").read_text()
    # The lab's own commands have a page of their own.
    names = [f"cnc {name}" for name in cnc.commands]

    assert [name for name in names if f"`{name}" not in text] == []


def commands(group: click.Group, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}"


def test_a_fence_with_commands_is_read_with_all_lines_of_a_command(tmp_path: Path):
    block = only_block(
        page(
            tmp_path,
            "text\n\n<!-- run: host exit=2 -->\n```sh\n# a comment\ntrue \\\n  && false\n"
            "cat <<END\nnot a command\nEND\nfor x in 1; do\n  echo $x\ndone\n```\n",
        )
    )

    assert (block.place, block.line, block.exit_code) == ("host", 4, 2)
    assert [command.text for command in block.commands] == [
        "true \\\n  && false\n",
        "cat <<END\nnot a command\nEND\n",
        "for x in 1; do\n  echo $x\ndone\n",
    ]


def test_a_transcript_is_commands_and_what_they_print(tmp_path: Path):
    block = only_block(
        page(
            tmp_path,
            "<!-- run: lab -->\n```console\n"
            "$ cat <<END\n> one\n> END\none\n$ true\n$ id\nroot\n```\n",
        )
    )

    assert block.commands == (
        Command("cat <<END\none\nEND\n", "one\n"),
        Command("true\n", ""),
        Command("id\n", "root\n"),
    )


def test_more_lines_in_the_comment_are_run_before_the_block(tmp_path: Path):
    block = only_block(
        page(tmp_path, "<!-- run: lab\ncnc lab up x.yaml\n-->\n```sh\ncnc status x.yaml\n```\n")
    )

    assert block.setup == (Command("cnc lab up x.yaml\n"),)


def test_a_block_in_a_list_loses_its_indentation(tmp_path: Path):
    block = only_block(
        page(tmp_path, "1. Do:\n\n   <!-- run: host -->\n   ```sh\n   true\n   ```\n")
    )

    assert block.commands == (Command("true\n"),)


def test_what_is_to_be_read_needs_no_comment(tmp_path: Path):
    found = read(page(tmp_path, "```yaml\na: 1\n```\n\n```text\n$ rm -rf /\n```\n"))

    assert (found.blocks, found.faults) == ([], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```sh\ntrue\n```\n", "no comment right before it"),
        ("<!-- run: host -->\n\n```sh\ntrue\n```\n", "no comment right before it"),
        ("```\ntrue\n```\n", "a fence without a language"),
        ("<!-- run: moon -->\n```sh\ntrue\n```\n", "no such place: moon"),
        ("<!-- run: no -->\n```sh\ntrue\n```\n", "needs reason="),
        ("<!-- run: host exit=bad -->\n```sh\ntrue\n```\n", "is no exit code"),
        ("<!-- run: host because=x -->\n```sh\ntrue\n```\n", "no such key: because"),
        ("<!-- run: host reason='x -->\n```sh\ntrue\n```\n", "cannot be read"),
        ("<!-- run: host -->\n```sh\ncat <<END\n```\n", "a command without an end"),
        ("<!-- run: host -->\n```console\nroot\n```\n", "starts with a command"),
        ("<!-- run: host -->\n```sh\n# nothing\n```\n", "no command in it"),
        ("Like this:\n\n    rm -rf /\n", "indented code"),
    ],
)
def test_a_block_that_nobody_could_run_is_named(tmp_path: Path, text: str, why: str):
    fault = only_fault(page(tmp_path, text))

    assert re.match(r".*page\.md:\d+: ", fault)
    assert why in fault


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("took 838 ms\n", "took 1.2 s\n"),
        ("  a    b\n ────\n", "  a      b\n ─────────\n\n"),
        ("one\n…\nlast\n", "one\ntwo\nthree\nlast\n"),
        ("one\n…\n", "one\n"),
        ("export KEY=…\n", "export KEY=/run/x\n"),
        ("qdisc netem 8006: root\n", "qdisc netem 800c: root\n"),
        ("plain\n", "\x1b[32mplain\x1b[0m\n"),
    ],
)
def test_what_no_two_runs_share_does_not_count(shown: str, printed: str):
    assert alike(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("s1 ok\n", "s2 ok\n"),
        ("running\n", "pending\n"),
        ("one\n", "one\ntwo\n"),
        ("one\n…\nlast\n", "one\ntwo\n"),
        ("a 1\na 1\n", "a 1\n"),
        ("", "a warning\n"),
    ],
)
def test_other_words_are_a_difference(shown: str, printed: str):
    assert not alike(shown, printed)


# The ten words that hid most often which component does what, and the ones to use instead:
# docs/CONTRIBUTING.md. Pages and messages are read for them.
RETIRED = re.compile(
    r"\b(anew|nobody|somebody|anybody|everybody|whoever|told|belongs into|strangers?"
    r"|second cop(?:y|ies)|otherwise than planned|former ways?"
    r"|(?:come|comes|came|coming) (?:in )?by"
    r"|(?:take|taken|takes|put|puts|bring|brings|brought|goes|gone|went) back)\b",
    re.I,
)
STORED = {"taken back"}  # a phase of a rollout, as histories have it
GENERATED = {"commands-json.md", "fault-matrix.md", "late-link.md", "yang.md"}


@pytest.mark.parametrize(
    "file",
    [file for file in PAGES if file.name not in GENERATED],
    ids=lambda file: file.name,
)
def test_a_page_names_the_component_that_acts(file: Path):
    assert list(retired(file.read_text())) == []


def retired(text: str) -> Iterator[str]:
    """The lines with a retired word, outside of fences and `code`: programs print their own."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`|<!--.*?-->", "", text, flags=re.M | re.S)
    yield from (line for line in prose.splitlines() if RETIRED.search(line))


@pytest.mark.parametrize("line", ["Nobody is told.", "the list is put back", "planned anew"])
def test_a_retired_word_is_found(line: str):
    assert list(retired(f"Fine.\n{line}\n`{line}`\n```text\n{line}\n```\n")) == [line]


def test_a_message_names_the_component_that_acts():
    found = [
        f"{file.relative_to(CHECKOUT)}:{line}: {text}"
        for part in ("cnc", "agent")
        for file in (CHECKOUT / part).rglob("*.py")
        for line, text in messages(file.read_text(encoding="utf-8"))
        if RETIRED.search(text) and text not in STORED
    ]

    assert found == []


def messages(source: str) -> Iterator[tuple[int, str]]:
    """The texts of several words that a module may print: all its literals but docstrings; those of
    commands, which are their help, are among them."""
    if not RETIRED.search(source):
        return  # nothing to find, and parsing takes long
    nodes = list(ast.walk(ast.parse(source)))
    silent: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
            constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, "…".join(map(str, constants))
        decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
        is_command = any(re.search(r"\.(command|group)\b", each) for each in decorators)
        body = getattr(node, "body", ())
        if isinstance(body, list) and not is_command:
            silent |= {id(each.value) for each in body if isinstance(each, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in silent:
            text = str(node.value)
            if " " in text:
                yield node.lineno, text


def test_messages_are_texts_and_the_help_of_commands():
    source = """
@cnc.command()
def show():
    'told by help'
    print("told", "is told", f"told {1} here")
def helper():
    'told of a function'
"""

    assert [text for _, text in messages(source)] == ["told … here", "told by help", "is told"]
