"""Facts about the README and the documentation that need no database."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from retrieval import Settings
from tests.support.deployment import variable
from tests.support.markdown import anchors, blocks, links, pages

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file of the repository, and a heading of it where it says so."""
    for link in links(page):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_each_picture_is_shown_on_light_and_dark_pages() -> None:
    """Every picture has both kinds, and every page names files that are there."""
    used = {
        (page.parent / path).resolve()
        for page in PAGES
        for path in re.findall(r'\bsrc(?:set)?="([^"]+\.svg)"', page.read_text(encoding="utf-8"))
    }
    pictures = set((ROOT / "docs/pictures").glob("*.svg"))
    assert used == pictures
    assert {path.name.replace("-dark.", "-light.") for path in pictures} == {
        p.name for p in pictures if "-light." in p.name
    }


def test_every_page_is_linked_to() -> None:
    """No page of the documentation is unreachable."""
    reached = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}

    assert not [page.name for page in PAGES[1:] if page not in reached]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_how_to_begins_with_what_it_is_for_and_ends_with_its_limits(page: Path) -> None:
    """A title, a sentence, and on the first screen the shortest example; the limits are the last section."""
    lines = page.read_text(encoding="utf-8").splitlines()
    headings = [number for number, line in enumerate(lines) if line.startswith("## ")]

    assert re.match(r"# \w", lines[0])
    assert re.match(r"[\w`\"]", lines[2])
    assert any(line.startswith("```") for line in lines[:20])
    assert lines[headings[-1]] == "## Limits"
    assert any(lines[headings[-1] + 1 :])


SETTINGS_PAGE = (ROOT / "docs" / "reference" / "settings.md").read_text()


def test_the_page_of_settings_names_every_setting_once_and_no_other() -> None:
    """The tables are those of ``Settings``."""
    named = re.findall(r"^\| `(RETRIEVAL_[A-Z_]+)` \|", SETTINGS_PAGE, re.MULTILINE)

    assert sorted(named) == sorted(map(variable, Settings.model_fields))


PLAIN_DEFAULTS = {
    name: f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
    for name, field in Settings.model_fields.items()
    if field.default is not None
}
"""Defaults that are numbers or names, as text."""


@pytest.mark.parametrize(("name", "default"), PLAIN_DEFAULTS.items())
def test_the_page_of_settings_shows_a_plain_default_as_it_is(name: str, default: str) -> None:
    """The table shows a default that is a number or a name."""
    row = next(line for line in SETTINGS_PAGE.splitlines() if line.startswith(f"| `{variable(name)}`"))

    assert row.startswith(f"| `{variable(name)}` | `{default}` |")


def test_the_glossary_defines_what_the_code_calls_things() -> None:
    """The legs, the paths and the words of the API are there."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()

    for word in ("tenant", "collection", "item", "embedding space", "leg", "fusion", "profile", "hit", "explanation"):
        assert f"| {word} |" in glossary


def test_shell_blocks_do_not_hide_behind_another_language() -> None:
    """A block that runs the program says ``sh``, so that it is tried out."""
    for page in PAGES:
        for language in ("", "text", "console", "bash", "shell"):
            for block in blocks(page, language):
                assert not re.search(r"^retrieval ", block.text, re.MULTILINE), str(block)


def test_decisions_say_context_decision_and_consequences() -> None:
    """Each decision has its three parts and its number in the title."""
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        parts = re.findall(r"^## (\w+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences"], page.name


def _threats() -> list[tuple[str, list[str]]]:
    """The rows of the threat model: the threats, and the tests that they name."""
    lines = (ROOT / "docs" / "concepts" / "threats.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ") and not line.startswith("| Threat")]
    return [(row[0].strip(), re.findall(r"`([^`]+)`", row[-1])) for row in rows]


@pytest.mark.parametrize(
    ("threat", "tests"), _threats(), ids=lambda value: value[:40] if isinstance(value, str) else ""
)
def test_every_threat_is_held_by_tests_that_there_are(threat: str, tests: list[str]) -> None:
    """Each line names at least one, by its file and its name."""
    assert tests, threat
    for test in tests:
        path, _, name = test.partition("::")
        source = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        assert name in {node.name for node in source.body if isinstance(node, functions)}, test


def test_the_threat_model_has_all_its_parts() -> None:
    """Tenants, analysts, clients, stored text, resources, supply chain: none is forgotten."""
    parts = re.findall(r"^## (.+)$", (ROOT / "docs" / "concepts" / "threats.md").read_text(), re.MULTILINE)
    assert parts == [
        "Tenants", "Analysts", "Clients with an API key", "Stored text as instructions", "Resources", "Supply chain",
        "The operator's tasks",
    ]  # fmt: skip
    assert len(_threats()) > 35
