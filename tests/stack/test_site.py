"""scripts/site: the pages as a static site."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, checkout / "scripts/site", "-o", site],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkout of two pages, with a file and a folder that one of them links to."""
    checkout = tmp_path / "checkout"
    (checkout / "docs/operate").mkdir(parents=True)
    (checkout / "schedules").mkdir()
    shutil.copytree(CHECKOUT / "scripts/site.d", checkout / "scripts/site.d")
    shutil.copy(CHECKOUT / "scripts/site", checkout / "scripts/site")
    (checkout / "README.md").write_text("# Home\n\n[Pages](docs/README.md)\n")
    (checkout / "docs/README.md").write_text(
        "# Pages\n\n## Operate\n\n- [gates](operate/gates.md)\n"
    )
    (checkout / "schedules/line3.yaml").write_text("network: line3\n")
    (checkout / "docs/operate/gates.md").write_text(
        "# Gates\n\n[A line](../../schedules/line3.yaml) of [all](../../schedules).\n\n"
        "- outer\n  - inner\n"
    )
    return checkout


def test_the_pages_of_this_tree_are_a_site_that_loads_nothing_from_other_hosts(tmp_path: Path):
    built = build(CHECKOUT, tmp_path / "site")
    assert (built.returncode, built.stderr) == (0, "")
    pages = [*(tmp_path / "site").glob("docs/**/index.html")]
    assert len(pages) > 40
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="([^"]+)"', page.read_text()
        )
        assert [address for address in loaded if address.startswith(("http", "//"))] == []


def test_a_site_has_the_files_that_pages_link_to(small: Path, tmp_path: Path):
    built = build(small, tmp_path / "site")
    assert (built.returncode, built.stderr) == (0, "")
    assert (tmp_path / "site/schedules/line3.yaml").read_text() == "network: line3\n"
    assert "line3.yaml" in (tmp_path / "site/schedules/index.html").read_text()
    page = (tmp_path / "site/docs/operate/gates/index.html").read_text()
    assert re.search(r"<li>outer\s*<ul>\s*<li>inner", page)


@pytest.mark.parametrize("link", ["clocks.md", "../README.md#nothing", "../../schedules/no.yaml"])
def test_a_link_to_nothing_is_named_with_its_page(small: Path, tmp_path: Path, link: str):
    page = small / "docs/operate/gates.md"
    page.write_text(page.read_text() + f"\n[Clocks]({link})\n")
    built = build(small, tmp_path / "site")
    assert built.returncode == 1
    assert "docs/operate/gates.md" in built.stderr
    assert link.rpartition("/")[2] in built.stderr
