"""Find the tags of a folder's project by its manifests and their dependencies."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from retrieval.domain.words import LETTERS, word_pattern

MOST_BYTES = 256 * 1024
"""The most bytes that are read of a file; manifests are smaller."""


def read_part(path: Path) -> str | None:
    """The file's first bytes as text; None if the file is missing, unreadable, or not a regular file."""
    try:
        if not path.is_file():  # opening a pipe would wait for a writer
            return None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


MOST_CHARACTERS = 64 * 1024
_MOST_STEPS = 500_000
"""About 50 ms: 700 parts in one key, or 15 parts in the keys of 2000 lines."""

_STEPS_PER_PART = 8


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises ``ValueError`` for an invalid file, and for a file that is slow to parse."""
    import tomllib

    lines = text.split("\n")
    dots = [line.count(".") for line in lines]
    header = max((count for line, count in zip(lines, dots, strict=True) if line.lstrip().startswith("[")), default=0)
    # An upper bound of the cost of the keys: each dot may separate parts of a key, or of its table's header.
    steps = sum((header + count + 1) * (count + _STEPS_PER_PART) for count in dots)
    if len(text) > MOST_CHARACTERS or steps > _MOST_STEPS:
        raise ValueError("too much to be parsed at once")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its parts are nested too deeply") from None


_MOST_HEADINGS = 100
_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*)", re.MULTILINE)


def headings(page: str) -> list[str]:
    """The page's first hundred headings, without their number signs; blocks of code are skipped."""
    titles = itertools.islice(_HEADING.finditer(_CODE.sub("", page)), _MOST_HEADINGS)
    return [title[1].rstrip("# \t") for title in titles]


MOST_KEYWORDS = 50
_LONGEST = 40
_SHORTEST = 3
_MOST_CHARACTERS = 20_000
_WORD = rf"{LETTERS}(?:[-_.+#]+{LETTERS})*[+#]*"
_PARTS = re.compile(r"[-_.+#]+")

_STOP_WORDS = """
    a about above after again all also an and any are as at be because been before being below between both but by can
    cannot could did do does doing done down during each either else few for from further get gets had has have having
    he her here hers him his how if in into is it its just let lets like made make makes may me might more most much
    must my no nor not now of off on once one only or other our out over own per same she should since so some such
    than that the their them then there these they this those through to too two under until up upon us use used uses
    using very via was we well were what when where which while who why will with within without would you your
    add added adding adds allow allows bump bumped bumps change changed changes clean cleanup commit commits
    correct corrected create created delete deleted drop dropped ensure feat fix fixed fixes fixing fixup handle
    handles implement implemented implements improve improved improves initial instead introduce introduced keep keeps
    merge merged merges minor misc move moved moves need needs new now old prepare pull remove removed removes removing
    rename renamed replace replaced request revert reverts rework set sets small some squash start stop support
    supports tidy tweak tweaks update updated updates updating version wip work works branch chore main master
    co-authored-by
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that name no subject, including those of commit messages."""


def keywords(texts: Iterable[str], most: int = MOST_KEYWORDS) -> tuple[str, ...]:
    """The ``most`` most frequent words of the texts, casefolded, then in order of appearance.

    A compound counts as a whole and in its parts. Numbers, stop words and words of fewer than three letters are left
    out, except names of languages that end in + or #.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(list(dict.fromkeys(_words(text[:_MOST_CHARACTERS].casefold()))))
    return tuple(word for word, _ in counts.most_common(most))


def _words(text: str) -> Iterable[str]:
    for match in word_pattern(_WORD, text).finditer(text):
        word = match[0]
        parts = _PARTS.split(word)
        yield from (part for part in dict.fromkeys([word, *parts]) if _is_keyword(part))


def _is_keyword(word: str) -> bool:
    if not word or len(word) > _LONGEST or word in STOP_WORDS:
        return False
    long_enough = len(word) >= _SHORTEST or word.endswith(("+", "#"))
    return long_enough and not word.replace(".", "").replace("-", "").isdigit()


_ENDINGS = {
    "astro": ".astro", "c": ".c .h", "c++": ".cc .cpp .hpp", "clojure": ".clj", "csharp": ".cs", "css": ".css .scss",
    "cuda": ".cu", "dart": ".dart", "documentation": ".md .rst", "elixir": ".ex .exs", "erlang": ".erl", "go": ".go",
    "gradle": ".gradle", "graphql": ".graphql", "haskell": ".hs", "html": ".html", "java": ".java",
    "javascript": ".js .jsx .mjs", "julia": ".jl", "kotlin": ".kt .kts", "lua": ".lua", "nix": ".nix",
    "notebook": ".ipynb", "objective-c": ".m", "ocaml": ".ml", "perl": ".pl", "php": ".php", "powershell": ".ps1",
    "protobuf": ".proto", "python": ".py .pyi", "r": ".r", "ruby": ".rb", "rust": ".rs", "scala": ".scala",
    "shell": ".sh", "sql": ".sql", "svelte": ".svelte", "swift": ".swift", "terraform": ".tf",
    "typescript": ".ts .tsx", "vue": ".vue", "zig": ".zig",
}  # fmt: skip
BY_ENDING = {ending: tag for tag, endings in _ENDINGS.items() for ending in endings.split()}

_FOLDERS = {
    "ci": ".github .gitlab",
    "documentation": "docs",
    "migrations": "migrations",
    "performance": "benchmarks",
    "testing": "__tests__ spec test tests",
}
BY_FOLDER = {folder: tag for tag, folders in _FOLDERS.items() for folder in folders.split()}

BY_NAME = {"dockerfile": "docker", "makefile": "make"}


def tags_of_files(paths: Iterable[str]) -> tuple[str, ...]:
    """The 20 most frequent tags of the files, the most frequent first."""
    counts = Counter(tag for path in paths for tag in _tags(PurePosixPath(path.casefold())))
    return tuple(tag for tag, _ in counts.most_common(20))


def _tags(path: PurePosixPath) -> Iterable[str]:
    tags = [BY_ENDING.get(path.suffix), BY_NAME.get(path.name)]
    tags += [BY_FOLDER.get(folder) for folder in path.parts[:-1]]
    stem = path.stem
    if stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec")):
        tags.append("testing")
    return dict.fromkeys(tag for tag in tags if tag)


_PURPOSES = {
    "actix": "actix-web", "airflow": "apache-airflow", "angular": "@angular/core",
    "api": "djangorestframework fastapi graphql", "async": "aiohttp asyncpg tokio", "aws": "aws-sdk boto3",
    "backend":
        "@nestjs/core actix-web axum chi django djangorestframework echo express fastapi fastify fiber flask gin "
        "hono koa laravel/framework mux rails rocket sinatra spring-boot-starter spring-boot-starter-web starlette "
        "symfony/framework-bundle tornado uvicorn",
    "browser": "puppeteer", "bundling": "rollup vite webpack", "cache": "ioredis redis",
    "cli": "clap click cobra typer", "css": "tailwindcss", "data": "pandas polars pyspark",
    "database":
        "@prisma/client alembic asyncpg diesel gorm hibernate-core mongoose mysql2 pg pgx prisma psycopg psycopg2 "
        "psycopg2-binary pymongo sequelize spring-boot-starter-data-jpa sqlalchemy sqlx typeorm",
    "desktop": "electron tauri", "django": "djangorestframework", "error-handling": "anyhow thiserror",
    "formatting": "prettier",
    "frontend":
        "@angular/core @sveltejs/kit astro leptos next nuxt preact react react-dom redux solid-js storybook "
        "streamlit svelte tailwindcss vue",
    "games": "bevy", "graphics": "three", "grpc": "tonic", "hibernate": "hibernate-core",
    "http": "aiohttp httpx requests reqwest", "jobs": "celery sidekiq", "junit": "junit-jupiter",
    "kafka": "kafka-clients", "laravel": "laravel/framework", "linting": "eslint rubocop ruff",
    "llm": "@anthropic-ai/sdk anthropic langchain openai",
    "machine-learning": "jax keras scikit-learn tensorflow torch transformers", "mcp": "@modelcontextprotocol/sdk",
    "messaging": "kafka-clients", "migrations": "alembic", "mobile": "expo react-native", "mockito": "mockito-core",
    "mongodb": "mongoose pymongo", "mysql": "mysql2", "nestjs": "@nestjs/core", "nextjs": "next",
    "notebook": "jupyter", "pipelines": "airflow apache-airflow", "playwright": "@playwright/test",
    "plotting": "matplotlib", "postgresql": "asyncpg pg pgvector pgx psycopg psycopg2 psycopg2-binary",
    "prisma": "@prisma/client", "pytorch": "torch", "rails": "rspec-rails", "react": "next react-dom",
    "react-native": "expo", "redis": "ioredis", "rspec": "rspec-rails", "scraping": "scrapy",
    "serialization": "jackson-databind serde", "solid": "solid-js", "spark": "pyspark",
    "spring": "spring-boot-starter spring-boot-starter-data-jpa spring-boot-starter-web spring-core", "state": "redux",
    "svelte": "@sveltejs/kit", "symfony": "symfony/framework-bundle", "tailwind": "tailwindcss",
    "testing":
        "@playwright/test @testing-library/react cypress hypothesis jest junit junit-jupiter mocha mockito-core "
        "phpunit/phpunit playwright pytest rspec rspec-rails testify vitest",
    "typing": "mypy", "validation": "pydantic zod", "vue": "nuxt", "wasm": "wasm-bindgen", "webgl": "three",
    "websockets": "socket.io",
}  # fmt: skip
"""The packages of each purpose, in lower case; Go modules by their last part, Java's by the name of the artifact."""

_TAGS: dict[str, list[str]] = {}
for _purpose, _packages in _PURPOSES.items():
    for _package in _packages.split():
        _TAGS.setdefault(_package, []).append(_purpose)


_MOST_DEPENDENCIES = 200
_MOST_NAMES = 40
"""The most package names of one manifest that become tags: a long list would hide other tags."""


class PackageName(str):
    """A tag that is only a package's name."""

    __slots__ = ()


def tags_of_dependencies(names: Iterable[str]) -> list[str]:
    """The distinct tags of the first 200 packages, followed by the packages' own names (``PackageName``)."""
    first = itertools.islice(names, _MOST_DEPENDENCIES)
    packages = list(dict.fromkeys(name.strip().casefold() for name in first if name.strip()))
    # A name may have a scope: @scope/name, vendor/name.
    short = {package: package.rpartition("/")[2] for package in packages}
    tags = [tag for package in packages if package in _TAGS for tag in (short[package], *_TAGS[package])]
    return list(dict.fromkeys([*tags, *map(PackageName, list(short.values())[:_MOST_NAMES])]))


_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GEM = re.compile(r"""^[ \t]*gem[ \t]+['"]([^'"\s]{1,100})['"]""", re.MULTILINE)
_GO_MODULE = re.compile(r"^[ \t]*(?:require[ \t]+)?([\w.-]+(?:/[\w.~-]+)+)[ \t]+v\d", re.MULTILINE)
_GO_VERSION = re.compile(r"/v\d+$")
_ARTIFACT = re.compile(r"<artifactId>\s*([\w.-]{1,100})\s*</artifactId>")
_GRADLE = re.compile(r"""['"][\w.-]+:([\w.-]{1,100}):[^'"]*['"]""")
_IMAGE = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*([\w./-]{1,100})", re.MULTILINE | re.IGNORECASE)
_SERVICE_IMAGE = re.compile(r"^[ \t]*image:[ \t]*['\"]?([\w./-]{1,100})", re.MULTILINE)


def tags_of_manifest(name: str, text: str) -> list[str]:
    """The tags of a manifest by its name and text, which may be the beginning of a longer one."""
    manifest = MANIFESTS[name]
    tags = list(manifest.tags)
    # A broken file has only the tags of its name.
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        tags += manifest.read(text)
    return list(dict.fromkeys(tags))


def _package_json(text: str) -> list[str]:
    package = json.loads(text)
    names = _texts(package, "dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
    scripts = " ".join(map(str, _table(package, "scripts").values()))
    names += [word for word in scripts.split() if word in _TAGS]
    return [
        *tags_of_dependencies(names),
        *keywords(_texts(package, "keywords"), 20),
        *keywords([str(package.get("name", ""))], 10),
    ]


def _composer_json(text: str) -> list[str]:
    return tags_of_dependencies(_texts(json.loads(text), "require", "require-dev"))


def _pyproject(text: str) -> list[str]:
    document = parse_toml(text)
    project, tool = _table(document, "project"), _table(document, "tool")
    poetry = _table(tool, "poetry")
    names = _requirements(_texts(project, "dependencies"))
    for groups in (_table(project, "optional-dependencies"), _table(document, "dependency-groups")):
        names += _requirements(_texts(groups, *groups))
    names += [name for name in _texts(poetry, "dependencies") if name != "python"]
    for group in _table(poetry, "group").values():
        names += _texts(group, "dependencies")
    return [*tags_of_dependencies([*names, *_texts(document, "tool")]), *keywords(_texts(project, "keywords"), 20)]


def _requirements_txt(text: str) -> list[str]:
    return tags_of_dependencies(
        _requirements(line for line in text.splitlines() if not line.lstrip().startswith(("#", "-")))
    )


def _cargo(text: str) -> list[str]:
    document = parse_toml(text)
    keys = ("dependencies", "dev-dependencies", "build-dependencies")
    return tags_of_dependencies([*_texts(document, *keys), *_texts(_table(document, "workspace"), *keys)])


def _go_mod(text: str) -> list[str]:
    modules = [_GO_VERSION.sub("", module) for module in _GO_MODULE.findall(text)]
    return tags_of_dependencies([module.rpartition("/")[2].removeprefix("go-") for module in modules])


def _docker(text: str) -> list[str]:
    images = [*_IMAGE.findall(text), *_SERVICE_IMAGE.findall(text)]
    return [image.rpartition("/")[2].casefold() for image in images[:20] if image.casefold() != "scratch"]


def _texts(table: Mapping[str, Any], *keys: str) -> list[str]:
    """The names in the tables, and the texts in the lists, under those keys."""
    parts = [table.get(key) for key in keys]
    return [text for part in parts if isinstance(part, list | Mapping) for text in part if isinstance(text, str)]


def _table(tables: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tables.get(key)
    return table if isinstance(table, Mapping) else {}


def _requirements(lines: Iterable[str]) -> list[str]:
    matches = [_REQUIREMENT.match(line.strip()) for line in lines]
    return [tag[0].casefold().replace("_", "-") for tag in matches if tag]


class Manifest(NamedTuple):
    """A kind of manifest: the tags of every such file, and a function for the tags of its text."""

    tags: tuple[str, ...]
    read: Callable[[str], list[str]] = lambda _text: []


MANIFESTS: Mapping[str, Manifest] = {
    "package.json": Manifest(("javascript", "node"), _package_json),
    "tsconfig.json": Manifest(("typescript",)),
    "deno.json": Manifest(("typescript", "deno")),
    "pyproject.toml": Manifest(("python",), _pyproject),
    "requirements.txt": Manifest(("python",), _requirements_txt),
    "setup.py": Manifest(("python",)),
    "manage.py": Manifest(("python", "django")),
    "Cargo.toml": Manifest(("rust",), _cargo),
    "go.mod": Manifest(("go",), _go_mod),
    "Gemfile": Manifest(("ruby",), lambda text: tags_of_dependencies(_GEM.findall(text))),
    "pom.xml": Manifest(("java", "maven"), lambda text: tags_of_dependencies(_ARTIFACT.findall(text))),
    "build.gradle": Manifest(("java", "gradle"), lambda text: tags_of_dependencies(_GRADLE.findall(text))),
    "build.gradle.kts": Manifest(("kotlin", "gradle"), lambda text: tags_of_dependencies(_GRADLE.findall(text))),
    "composer.json": Manifest(("php",), _composer_json),
    "mix.exs": Manifest(("elixir",)),
    "pubspec.yaml": Manifest(("dart", "flutter")),
    "CMakeLists.txt": Manifest(("c++", "cmake")),
    "Dockerfile": Manifest(("docker",), _docker),
    "compose.yaml": Manifest(("docker",), _docker),
    "docker-compose.yml": Manifest(("docker",), _docker),
    "CLAUDE.md": Manifest((), lambda text: [*keywords(headings(text), 30)]),
    "AGENTS.md": Manifest((), lambda text: [*keywords(headings(text), 30)]),
}


MOST_PROJECT_TAGS = 150
_MOST_FOLDERS = 8
_LONGEST_TAG = 60


def project_tags(folder: Path, deadline: float = math.inf) -> tuple[str, ...]:
    """The first 150 tags of the manifests in the folder and above it, up to the top of its repository.

    They are casefolded and distinct, those of the folder itself first, and names of packages last. No file is read
    after the ``deadline`` (``time.monotonic`` seconds).
    """
    files = ((parent, name) for parent in _folders(folder) for name in MANIFESTS)
    in_time = itertools.takewhile(lambda _file: time.monotonic() < deadline, files)
    parts = ((name, read_part(parent / name)) for parent, name in in_time)
    tags = [tag for name, text in parts if text is not None for tag in tags_of_manifest(name, text)]
    tags.sort(key=lambda tag: isinstance(tag, PackageName))
    distinct = dict.fromkeys(tag.casefold() for tag in tags)
    # A name in a manifest may contain characters that PostgreSQL cannot store.
    return tuple(tag for tag in distinct if 0 < len(tag) <= _LONGEST_TAG and tag.isprintable())[:MOST_PROJECT_TAGS]


def _folders(folder: Path) -> Iterator[Path]:
    """The folder, and the folders above it in the same repository."""
    above = [folder, *folder.parents][:_MOST_FOLDERS]
    # Unlike ``Path.exists``, it is False for a folder that may not be read.
    top = next((level for level, parent in enumerate(above) if os.path.exists(parent / ".git")), 0)  # noqa: PTH110
    yield from above[: top + 1]
