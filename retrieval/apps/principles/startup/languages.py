"""Tags that files have by their names. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

BY_ENDING = {
    ".astro": "astro",
    ".c": "c",
    ".cc": "c++",
    ".clj": "clojure",
    ".cpp": "c++",
    ".cs": "csharp",
    ".css": "css",
    ".cu": "cuda",
    ".dart": "dart",
    ".erl": "erlang",
    ".ex": "elixir",
    ".exs": "elixir",
    ".go": "go",
    ".gradle": "gradle",
    ".graphql": "graphql",
    ".h": "c",
    ".hpp": "c++",
    ".hs": "haskell",
    ".html": "html",
    ".ipynb": "notebook",
    ".java": "java",
    ".jl": "julia",
    ".js": "javascript",
    ".jsx": "javascript",
    ".kt": "kotlin",
    ".kts": "kotlin",
    ".lua": "lua",
    ".m": "objective-c",
    ".md": "documentation",
    ".mjs": "javascript",
    ".ml": "ocaml",
    ".nix": "nix",
    ".php": "php",
    ".pl": "perl",
    ".proto": "protobuf",
    ".ps1": "powershell",
    ".py": "python",
    ".pyi": "python",
    ".r": "r",
    ".rb": "ruby",
    ".rs": "rust",
    ".rst": "documentation",
    ".scala": "scala",
    ".scss": "css",
    ".sh": "shell",
    ".sql": "sql",
    ".svelte": "svelte",
    ".swift": "swift",
    ".tf": "terraform",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".vue": "vue",
    ".zig": "zig",
}
"""By the ending of the name."""

BY_FOLDER = {
    ".github": "ci",
    ".gitlab": "ci",
    "__tests__": "testing",
    "benchmarks": "performance",
    "docs": "documentation",
    "migrations": "migrations",
    "spec": "testing",
    "test": "testing",
    "tests": "testing",
}
"""By a folder that the file lies in."""

BY_NAME = {"dockerfile": "docker", "makefile": "make"}


def tags_of_files(paths: Iterable[str], most: int = 20) -> tuple[str, ...]:
    """The ``most`` tags that most of the files have, the most frequent first."""
    counts = Counter(tag for path in paths for tag in _tags(PurePosixPath(path.casefold())))
    return tuple(tag for tag, _ in counts.most_common(most))


def _tags(path: PurePosixPath) -> Iterable[str]:
    found = [BY_ENDING.get(path.suffix), BY_NAME.get(path.name)]
    found += [BY_FOLDER.get(folder) for folder in path.parts[:-1]]
    stem = path.stem
    if stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec")):
        found.append("testing")
    return dict.fromkeys(tag for tag in found if tag)
