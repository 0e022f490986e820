"""`docs/reference/yang.md`, the page about the modules, is what the modules say now."""

from __future__ import annotations

import re
import subprocess

from tests.stack.yang_modules import MODULE_FILES, YANG

CHECKOUT = YANG.parent
PAGE = CHECKOUT / "docs/reference/yang.md"


def test_the_page_is_up_to_date():
    check = subprocess.run(
        [CHECKOUT / "scripts" / "yang-docs", "--check"], capture_output=True, text=True, check=False
    )

    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_every_module_has_a_section():
    sections = re.findall(r"^## (.+)$", PAGE.read_text(), re.M)

    assert sorted(sections) == sorted(file.stem for file in MODULE_FILES)


def test_every_link_of_the_page_leads_somewhere():
    text = PAGE.read_text()
    sections = set(re.findall(r"^## (.+)$", text, re.M))

    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        assert link[1:] in sections if link.startswith("#") else (PAGE.parent / link).exists()
