"""Every file in `data/intent-refused` is refused in exactly the words of the text beside it.

After a change of wording, `REGENERATE=1 pytest` writes the texts anew: read the difference.
"""

import os
from pathlib import Path

import pytest
import yaml

from cnc import intent
from cnc.errors import InputError

REFUSED = Path(__file__).parent / "data" / "intent-refused"
# What libyaml says of a syntax error differs from PyYAML's own parser.
SYNTAX = {"not-yaml", "tab-indentation", "two-documents"}


@pytest.mark.parametrize("name", sorted(path.stem for path in REFUSED.glob("*.yaml")))
def test_a_bad_file_is_refused_with_place_finding_and_expectation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in SYNTAX and not yaml.__with_libyaml__:
        pytest.skip("PyYAML without libyaml words syntax errors differently")
    monkeypatch.chdir(REFUSED)
    with pytest.raises(InputError) as refused:
        intent.load(Path(f"{name}.yaml"))
    golden = REFUSED / f"{name}.txt"
    if os.environ.get("REGENERATE"):
        golden.write_text(f"{refused.value}\n")
    assert f"{refused.value}\n" == golden.read_text()
