"""Facts about the README and the documentation that need no database."""

from __future__ import annotations

import ast
import json
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


def _of_results(name: str, row: str, column: str) -> float:
    """A figure of a table in ``benchmarks/results``: the first row with that beginning, and the column of its table."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8").splitlines()
    ]
    place = next(place for place, cells in enumerate(lines) if ", ".join(cells).startswith(row))
    head = next(lines[above - 1] for above in range(place, 0, -1) if set(lines[above][0]) == {"-"})
    return float(lines[place][head.index(column)].split()[0].rstrip("%"))


@pytest.mark.parametrize(
    ("page", "quoted", "name", "row", "column"),
    [
        ("docs/how-to/recall.md", "{:.3f}", "recall_temporal.md", "with a date", "prefer"),
        ("docs/how-to/recall.md", "{:.3f}", "recall_temporal.md", "with a date", "filter"),
        ("docs/how-to/recall.md", "{:.3f}", "recall_temporal.md", "with a date", "off"),
        ("docs/how-to/memories.md", "{:.3f}", "messages.md", "turns", "turn R@10"),
        ("docs/how-to/memories.md", "{:.3f}", "messages.md", "facts, deduplicated and superseded", "turn R@10"),
        ("docs/how-to/metaphors.md", "{:.2f}", "metaphors.md", "learned, a model trusted from 20", "quarter 1"),
        ("docs/how-to/metaphors.md", "{:.2f}", "metaphors.md", "learned, a model trusted from 20", "quarter 4"),
        ("docs/how-to/metaphors.md", "{:.3f}", "metaphors.md", "0.4", "to the failed one"),
        ("docs/how-to/langgraph.md", "had {:.0f} items", "graph_store.md", "items on a page of 10, 2", "PostgresStore"),
        ("docs/how-to/langgraph.md", "had {:.1f}", "graph_store.md", "items on a page of 10, 10 %", "PostgresStore"),
        ("docs/how-to/documents.md", "{:.3f}", "long_documents.md", "cranfield, 1,400, 347, 225, documents", "nDCG@10"),
        ("docs/how-to/documents.md", "{:.3f}", "long_documents.md", "scifact, 5,183, 3,681, 300, documents", "nDCG@10"),
        ("docs/how-to/documents.md", "{:.3f}", "long_documents.md", "scifact, 5,183, 3,681, 300, sections", "R@10"),
        ("docs/how-to/principles.md", "{:.3f}", "principles.md", "Beta mean + tags + 2 explored, 0.66", "quarter 4"),
        ("docs/how-to/tickets.md", "{:.3f}", "tickets.md", "words and vector, title and description", "0.2"),
        ("docs/concepts/exploration.md", "{:.1%}", "exploration.md", ".4 / .6, 1 slot, shrunk", "top decile found"),
        ("docs/concepts/learning.md", "{:.1f} %", "learning_curve.md", "30%, 0%, 7", "at 500"),
        ("docs/concepts/learning.md", "{:.1f} %", "learning_curve.md", "30%, 30%, 7", "end"),
        ("docs/concepts/learning.md", "+{:.1f} %", "learning_curve.md", "scifact, 30%, 0%", "end"),
        ("docs/concepts/learning.md", "{:.1f} ms", "learned_cost.md", "scifact, yes", "added"),
        ("docs/concepts/cost.md", "{:.2f} times as many", "writes.md", "8 writers", "reached"),
        ("docs/concepts/cost.md", "{:.1f} / ", "growth.md", "300,000, hybrid", "p50 ms"),
        ("docs/scale.md", "{:.1f} ms", "scale_model.md", "1,000,000, 4, 1,024", "dense, server ms"),
        ("README.md", "{:.3f}", "locomo.md", "with neighbours, words and vectors", "turn R@10"),
        ("README.md", "by {:.1f} % on SciFact", "learning_curve.md", "scifact, 30%, 0%", "end"),
    ],
)  # fmt: skip
def test_a_page_quotes_the_figures_of_the_results(page: str, quoted: str, name: str, row: str, column: str) -> None:
    """As the pages write figures: without a zero before the point."""
    text = re.sub(r"\b0\.", ".", (ROOT / page).read_text(encoding="utf-8"))
    figure = re.sub(r"\b0\.", ".", quoted.format(_of_results(name, row, column))).replace("%", " %").replace("  ", " ")

    assert figure in " ".join(text.split()), (figure, page)


@pytest.mark.parametrize("task", ["scifact", "cranfield", "tickets_hadoop", "locomo"])
def test_the_readme_shows_the_measured_quality(task: str) -> None:
    """Words, meaning and both, in a row; of LoCoMo the recall."""
    stored = json.loads((ROOT / "benchmarks" / "results" / "quality.json").read_text(encoding="utf-8"))[task]
    metric = "R@10" if task == "locomo" else "nDCG@10"
    words, meaning, both = (f"{variant['metrics'][metric]:.3f}"[1:] for variant in stored["variants"])

    assert f"| {stored['queries']:,} | {words} | {meaning} | **{both}** |" in PAGES[0].read_text(encoding="utf-8")


def test_the_page_of_the_doctor_lists_every_check() -> None:
    """Each name that a finding can have."""
    folder = ROOT / "retrieval" / "services" / "doctor"
    sources = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    page = (ROOT / "docs" / "how-to" / "doctor.md").read_text(encoding="utf-8")

    for check in set(re.findall(r'\bfinding\(\s*"([a-z_ ]+)"', sources)):
        assert f"`{check}`" in page, check


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
