"""The documentation as a site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]

# Nearly no object of a build is garbage before its end.
_MKDOCS = "import gc; gc.disable(); from mkdocs.__main__ import cli; cli()"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built; a link or a heading that is not there, or a page outside of the navigation, fails it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", _MKDOCS, "build", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_each_page_of_the_documentation_is_a_page_of_the_site(site: Path) -> None:
    """Under the same path."""
    pages = (page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md"))
    places = (page.with_name("index.html") if page.stem == "README" else page for page in pages)

    assert [str(place) for place in places if not (site / place).exists()] == []


def test_links_and_pictures_lead_to_files(site: Path) -> None:
    """No link leads to a listing of a folder, so the site works when it is opened from a folder."""
    broken = set()
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        targets = re.findall(
            r'<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"#:]+)[#"]', page.read_text(encoding="utf-8")
        )
        broken |= {
            f"{page.relative_to(site)}: {link}" for link in targets if not (page.parent / unquote(link)).is_file()
        }
    assert broken == set()


def test_link_targets_in_the_repository_exist(site: Path) -> None:
    """Results of the benchmarks, with the links between them turned to where they lie in the site."""
    page = (site / "comparison.html").read_text()

    assert 'href="repository/benchmarks/results/side_by_side.html"' in page
    assert (site / "repository" / "benchmarks" / "results" / "side_by_side.html").exists()
    assert (site / "repository" / "examples" / "research_assistant.py").exists()


def test_the_reference_is_made_of_the_docstrings(site: Path) -> None:
    """Each public call of a collection, ``search`` first, with its types and what its docstring says."""
    page = (site / "reference" / "python" / "collection.html").read_text()

    calls = re.findall(r'id="retrieval\.Collection\.(\w+)"', page)
    assert calls[0] == "search"
    assert {"search", "get", "make_filterable"} <= set(calls)
    assert "Search by words, or by a precomputed vector" in page
    assert ">SearchResult</a>" in page


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """The site works without a network, and sends no request."""
    page = (site / "index.html").read_text()

    assert not re.findall(r'<(?:script|link rel="stylesheet")[^>]*(?:src|href)="(?:https?:)?//[^"]+"', page)
