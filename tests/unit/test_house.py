"""The size and shape of the package, as ``scripts/house.py`` counts them, and the pages that describe it."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from retrieval.surfaces.cli.app import app
from scripts import house
from tests.support.markdown import links

ROOT = Path(__file__).parents[2]
_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def modules() -> list[house.Module]:
    """The package's modules: read once, and not when the tests are collected."""
    return house.modules_of(house.PACKAGE)


def test_the_package_has_at_most_365_files(modules: list[house.Module]) -> None:
    """A package of more files hides its structure."""
    assert len(modules) <= 365


def test_no_folder_has_more_than_25_files_side_by_side(modules: list[house.Module]) -> None:
    """A folder with more files is divided into folders."""
    assert not house.full_folders(modules)


def test_a_small_file_has_two_importers_or_a_reason(modules: list[house.Module]) -> None:
    """A reason whose file is gone, has grown or has importers is removed from the table."""
    assert sorted(house.SMALL_FILES) == house.small_files(modules)


def test_no_public_class_name_stands_twice_without_a_reason(modules: list[house.Module]) -> None:
    """A class name means one thing."""
    assert sorted(house.SAME_NAMES) == sorted(house.same_names(modules))


def test_no_file_is_above_1100_lines(modules: list[house.Module]) -> None:
    """A longer file has two subjects."""
    assert not [module.path for module in modules if module.lines > 1100]


def test_no_modules_import_one_another_in_a_circle(modules: list[house.Module]) -> None:
    """Each module can be loaded first."""
    assert not house.import_cycle(modules)


_WORDED_FOR_THE_COMMAND_LINE = (
    "surfaces/",
    "domain/errors.py",  # the advice that every other surface words anew
    "services/doctor/",  # a finding's remedy is a command, which `retrieval doctor` runs
    "adapters/store/installation/",  # only commands set a database up
    "adapters/store/database.py",
    "adapters/store/translate.py",
    "jobs/worker.py",
)
"""Where a message may name a command."""


def test_a_message_below_the_surfaces_names_no_command(modules: list[house.Module]) -> None:
    """It states facts, and an ``Advice`` in each surface's words: users of Python and HTTP have other calls."""
    commands = "|".join(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = re.compile(rf"\bretrieval ({commands})\b(?!-)")
    assert [
        f"{module.path}: {text}"
        for module in modules
        if not module.path.startswith(_WORDED_FOR_THE_COMMAND_LINE)
        for text in messages_of(module.tree)
        if named.search(text)
    ] == []


def test_a_value_in_a_message_is_cut_in_one_way(modules: list[house.Module]) -> None:
    """By ``written``, which marks the cut; a format such as ``!r:.80`` would leave a quotation open."""
    assert [
        f"{module.path}:{node.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("r") and node.format_spec is not None
    ] == []


def messages_of(tree: ast.Module) -> Iterator[str]:
    """The texts of a module but its docstrings and the other texts that are statements."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.value


def package_of(folder: Path, files: dict[str, str]) -> list[house.Module]:
    """The modules of a package ``made`` with those files."""
    package = folder / "made"
    for path, text in files.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    return house.modules_of(package)


def test_full_folders_are_reported_with_their_number(tmp_path: Path) -> None:
    """A folder's own files count; those of the folders within do not."""
    modules = package_of(tmp_path, {"__init__.py": "", "a/b.py": "", "a/c.py": "", "a/d/e.py": ""})

    assert house.full_folders(modules, most=1) == {"a": 2}


def test_importers_are_counted_wherever_they_import(tmp_path: Path) -> None:
    """An import within a function counts, in either form; a file's own name does not."""
    files = {
        "__init__.py": "",
        "small.py": "import made.small\n",
        "one.py": "from made import small\n",
        "two.py": "def f() -> None:\n    from made.small import name\n",
    }
    modules = package_of(tmp_path, files)

    assert house.importers(modules)["made.small"] == {"made.one", "made.two"}
    assert house.small_files(modules) == ["one.py", "two.py"]
    assert house.small_files(modules, less_than=2) == ["one.py"]


def test_a_public_class_name_stands_once(tmp_path: Path) -> None:
    """Private classes may share a name; a class without ``await`` has a name of its own too."""
    files = {
        "apps.py": "class Store: ...\nclass _Own: ...\nclass Hit: ...\n",
        "sync.py": "class SyncStore(Mirror[apps.Store]): ...\nclass _Own: ...\nclass Hit(Mirror[apps.Hit]): ...\n",
    }

    assert house.same_names(package_of(tmp_path, files)) == {"Hit": ["apps.py", "sync.py"]}


@pytest.mark.parametrize("late", ["def f() -> None:\n    import made.a\n", "if TYPE_CHECKING:\n    import made.a\n"])
def test_a_circle_is_reported_unless_an_import_is_deferred(tmp_path: Path, late: str) -> None:
    """Imports within calls, or only for types, do not count."""
    first = {"a.py": "from made.b import x\n"}

    assert house.import_cycle(package_of(tmp_path / "late", {**first, "b.py": late})) == []
    circle = house.import_cycle(
        package_of(tmp_path / "circle", {**first, "b.py": "try:\n    import made.a\nfinally: ...\n"})
    )
    assert circle[0] == circle[-1]
    assert set(circle) == {"made.a", "made.b"}


def test_the_script_prints_json_on_demand(
    modules: list[house.Module], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text has the same figures."""
    monkeypatch.setattr(house, "modules_of", lambda _: modules)
    monkeypatch.setattr(sys, "argv", ["house.py", "--json"])
    assert house.main() == 0
    payload = json.loads(capsys.readouterr().out)

    assert payload["files"] == len(modules)
    assert "NO REASON" not in house.report(payload)


def named_paths(page: Path) -> list[str]:
    """The files and folders of the repository that a page names in code, and the files that its pictures name."""
    text = page.read_text(encoding="utf-8")
    names = [*_CODE.findall(_FENCE.sub("", text)), *" ".join(_PICTURE.findall(text)).split()]
    return [name for name in names if re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.(py|sql|md|toml|ya?ml))", name)]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_names_exists(page: str) -> None:
    """A path is below the repository or the package; ``NAME`` stands for a file to be created."""
    named = [name if "NAME" not in name else f"{Path(name).parent}/" for name in named_paths(ROOT / page)]

    assert len(named) > 20
    assert not [name for name in named if not ((ROOT / name).exists() or (house.PACKAGE / name).exists())]


def test_the_links_of_contributing_lead_somewhere() -> None:
    """The page is next to the README, outside of the documentation."""
    assert links(ROOT / "CONTRIBUTING.md")
    assert not [link for link in links(ROOT / "CONTRIBUTING.md") if not (ROOT / link).exists()]


def test_the_picture_shows_every_floor() -> None:
    """Each top-level module and folder of the package is in the picture of the architecture."""
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    modules = [path.name for path in house.PACKAGE.glob("[a-z]*") if path.is_dir() or path.suffix == ".py"]

    assert len(modules) > 10
    assert not [name for name in modules if name not in picture]


def test_the_hooks_before_a_commit_are_local() -> None:
    """They run the project's own tools, and fetch nothing."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    local = [hook for repository in hooks["repos"] for hook in repository["hooks"]]

    assert {repository["repo"] for repository in hooks["repos"]} == {"local"}
    assert {hook["language"] for hook in local} == {"system"}
    assert [hook["entry"].split()[0] for hook in local] == [
        ".venv/bin/ruff",
        ".venv/bin/ruff",
        ".venv/bin/lint-imports",
    ]
