#!/usr/bin/env python3
"""Print the package's size and shape: files, lines, small files, class names, import cycles. With --json, as JSON."""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "retrieval"

SMALL = 60
"""A file with fewer lines needs two importers or a reason."""

MANY = 25
"""The maximum number of files in one folder."""

SMALL_FILES: Mapping[str, str] = {
    "surfaces/cli/__main__.py": "Python runs the file of this name for `python -m retrieval.surfaces.cli`",
}
"""The reason for each small file with fewer than two importers, by path below the package."""

SAME_NAMES: Mapping[str, str] = {
    "Memory": "recall's users call its store by this name; the domain's is one memory as it is stored",
}
"""The reason for each name of two public classes."""


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file."""

    name: str
    """The dotted name, such as ``retrieval.engine.plan``; for an ``__init__.py`` the folder's."""
    path: str
    """The path below the package's folder, with slashes."""
    lines: int
    tree: ast.Module


def modules_of(package: Path) -> list[Module]:
    """Every Python file of the package, in order of path. Raises ``SyntaxError`` for a file that is not Python."""
    return [_module(path, package) for path in sorted(package.rglob("*.py"))]


def full_folders(modules: Sequence[Module], most: int = MANY) -> dict[str, int]:
    """The folders with more than ``most`` Python files, each with their number."""
    folders = Counter(module.path.rpartition("/")[0] or "." for module in modules)
    return {folder: files for folder, files in sorted(folders.items()) if files > most}


def importers(modules: Sequence[Module]) -> dict[str, set[str]]:
    """The modules that import a module anywhere in their file, by the imported module's name."""
    names = {module.name for module in modules}
    importers_of = defaultdict[str, set[str]](set)
    for module in modules:
        for imported in _imports(ast.walk(module.tree), names):
            if imported != module.name:
                importers_of[imported].add(module.name)
    return dict(importers_of)


def small_files(modules: Sequence[Module], less_than: int = SMALL) -> list[str]:
    """The paths of the files with fewer lines than ``less_than`` and fewer than two importers.

    An ``__init__.py`` does not count, because a package needs one.
    """
    users = importers(modules)
    small = [module for module in modules if module.lines < less_than and not module.path.endswith("__init__.py")]
    return [module.path for module in small if len(users.get(module.name, ())) < 2]


def same_names(modules: Sequence[Module]) -> dict[str, list[str]]:
    """The names of public classes that two or more files define, each with the paths."""
    places = defaultdict[str, list[str]](list)
    for module in modules:
        for node in _public_classes(module.tree):
            places[node.name].append(module.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def import_cycle(modules: Sequence[Module]) -> list[str]:
    """Modules that import one another in a cycle on loading, the first one repeated; empty without a cycle.

    Imports within functions and under ``TYPE_CHECKING`` do not count.
    """
    names = {module.name for module in modules}
    graph = {module.name: set(_imports(_loaded(module.tree.body), names)) - {module.name} for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def figures(package: Path = PACKAGE) -> dict[str, Any]:
    """All figures, as plain JSON values."""
    modules = modules_of(package)
    largest = max(modules, key=lambda module: module.lines)
    return {
        "files": len(modules),
        "lines": sum(module.lines for module in modules),
        "median_lines": sorted(module.lines for module in modules)[len(modules) // 2],
        "largest_file": {"path": largest.path, "lines": largest.lines},
        "full_folders": full_folders(modules),
        "small_files": {path: SMALL_FILES.get(path, "") for path in small_files(modules)},
        "same_names": {
            name: {"paths": paths, "reason": SAME_NAMES.get(name, "")} for name, paths in same_names(modules).items()
        },
        "import_cycle": import_cycle(modules),
    }


def report(values: Mapping[str, Any]) -> str:
    """The figures as lines of text."""
    largest = values["largest_file"]
    lines = [
        f"Python files           {values['files']}",
        f"lines                  {values['lines']:,}",
        f"median lines a file    {values['median_lines']}",
        f"largest file           {largest['path']}, {largest['lines']} lines",
        f"folders over {MANY} files  {len(values['full_folders'])}",
        *(f"  {folder}: {files}" for folder, files in values["full_folders"].items()),
        f"small files            {len(values['small_files'])} under {SMALL} lines without two importers",
        *(f"  {path}: {reason or 'NO REASON'}" for path, reason in values["small_files"].items()),
        f"class names twice      {len(values['same_names'])}",
        *(
            f"  {name} ({', '.join(each['paths'])}): {each['reason'] or 'NO REASON'}"
            for name, each in values["same_names"].items()
        ),
        f"import cycle           {' -> '.join(values['import_cycle']) or 'none'}",
    ]
    return "\n".join(lines)


def _module(path: Path, package: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    inside = path.relative_to(package.parent).with_suffix("").parts
    name = ".".join(inside[:-1] if inside[-1] == "__init__" else inside)
    return Module(name, path.relative_to(package).as_posix(), len(text.splitlines()), ast.parse(text))


def _loaded(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The statements that run on loading a module."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _loaded(node.orelse)
            continue
        yield node
        for part in ("body", "orelse", "finalbody"):
            yield from _loaded(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            yield from _loaded(handler.body)


def _imports(nodes: Iterable[ast.AST], names: set[str]) -> Iterator[str]:
    """The modules among ``names`` that the nodes import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in inner if name in names)
            if node.module in names and not all(name in names for name in inner):
                yield node.module


def _public_classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in _loaded(tree.body) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def main() -> int:
    """Print the figures. The exit code is 0."""
    values = figures()
    print(json.dumps(values, indent=2) if "--json" in sys.argv[1:] else report(values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
