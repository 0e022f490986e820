"""A revision of a module that switches have is what they have: RFC 7950 section 11 wants another
one for each change, and agents load by name and revision what is to be installed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
OWN = sorted([*(REPOSITORY / "yang").glob("*.yang"), *(REPOSITORY / "yang/cnc").glob("tsn-*.yang")])
DIGESTS = Path(__file__).parent / "data/yang-revisions"


@pytest.mark.parametrize("module", OWN, ids=lambda file: file.stem)
def test_a_module_that_changes_has_another_revision(module: Path):
    known = dict(line.split() for line in DIGESTS.read_text().splitlines())
    text = module.read_bytes()
    revision = re.search(rb"^  revision (\S+)", text, re.MULTILINE)
    assert revision
    name = f"{module.stem}@{revision[1].decode()}"
    digest = hashlib.sha256(text).hexdigest()
    assert known.get(name) == digest, (
        f"{module.relative_to(REPOSITORY)} is not the {name} of {DIGESTS.name}; if switches may "
        f"have that, give the module a revision, and then write there: {name} {digest}"
    )
