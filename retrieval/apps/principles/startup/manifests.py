"""What the files at the top of a project say about it. Pure: a broken one says what its name says."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from retrieval.apps.principles.startup.bounded_toml import parsed_toml
from retrieval.apps.principles.startup.dependencies import tags_of_dependencies
from retrieval.apps.principles.startup.headings import headings
from retrieval.apps.principles.startup.keywords import keywords

_MOST_DEPENDENCIES = 200
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GEM = re.compile(r"""^[ \t]*gem[ \t]+['"]([^'"\s]{1,100})['"]""", re.MULTILINE)
_GO_MODULE = re.compile(r"^[ \t]*(?:require[ \t]+)?([\w.-]+(?:/[\w.~-]+)+)[ \t]+v\d", re.MULTILINE)
_GO_VERSION = re.compile(r"v\d+$")
_ARTIFACT = re.compile(r"<artifactId>\s*([\w.-]{1,100})\s*</artifactId>")
_GRADLE = re.compile(r"""['"][\w.-]+:([\w.-]{1,100}):[^'"]*['"]""")
_IMAGE = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*([\w./-]{1,100})", re.MULTILINE | re.IGNORECASE)
_SERVICE_IMAGE = re.compile(r"^[ \t]*image:[ \t]*['\"]?([\w./-]{1,100})", re.MULTILINE)


def tags_of_manifest(name: str, text: str | None) -> list[str]:
    """The tags that a file of that name and text has; ``text`` None: it could not be read, or not whole.

    Nothing for a name that is no manifest's.
    """
    known = MANIFESTS.get(name)
    if known is None:
        return []
    tags = list(known.tags)
    if text is not None:
        # What is broken says nothing but its name.
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            tags += known.read(text)
    return list(dict.fromkeys(tags))


def _package_json(text: str) -> list[str]:
    package = json.loads(text)
    listed = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
    names = [name for key in listed for name in _names(package.get(key))]
    words = package.get("keywords")
    said = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    return [*_of(names), *keywords(said, 20), *keywords([str(package.get("name", ""))], 10)]


def _composer_json(text: str) -> list[str]:
    package = json.loads(text)
    return _of([name for key in ("require", "require-dev") for name in _names(package.get(key))])


def _pyproject(text: str) -> list[str]:
    found = parsed_toml(text)
    project, tool = _table(found.get("project")), _table(found.get("tool"))
    poetry = _table(tool.get("poetry"))
    groups = [*_table(project.get("optional-dependencies")).values(), *_table(found.get("dependency-groups")).values()]
    names = _requirements(project.get("dependencies"))
    names += [name for group in groups for name in _requirements(group)]
    names += [name for name in _names(poetry.get("dependencies")) if name != "python"]
    for group in _table(poetry.get("group")).values():
        names += _names(_table(group).get("dependencies"))
    words = project.get("keywords")
    said = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    return [*_of([*names, *_names(tool)]), *keywords(said, 20)]


def _requirements_txt(text: str) -> list[str]:
    return _of(_requirements([line for line in text.splitlines() if not line.lstrip().startswith(("#", "-"))]))


def _cargo(text: str) -> list[str]:
    found = parsed_toml(text)
    tables = [found, _table(found.get("workspace"))]
    listed = ("dependencies", "dev-dependencies", "build-dependencies")
    return _of([name for table in tables for key in listed for name in _names(table.get(key))])


def _go_mod(text: str) -> list[str]:
    return _of([_last_part(module) for module in _GO_MODULE.findall(text)])


def _last_part(module: str) -> str:
    parts = [part for part in module.split("/") if not _GO_VERSION.fullmatch(part)]
    return parts[-1].removeprefix("go-")


def _docker(text: str) -> list[str]:
    images = [*_IMAGE.findall(text), *_SERVICE_IMAGE.findall(text)]
    return [image.rpartition("/")[2].casefold() for image in images[:20] if image.casefold() != "scratch"]


def _page(text: str) -> list[str]:
    return list(keywords(headings(text), 30))


def _of(names: Iterable[str]) -> list[str]:
    return tags_of_dependencies(list(names)[:_MOST_DEPENDENCIES])


def _names(table: object) -> list[str]:
    return [name for name in table if isinstance(name, str)] if isinstance(table, Mapping) else []


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _requirements(lines: object) -> list[str]:
    listed = lines if isinstance(lines, list) else []
    found = [_REQUIREMENT.match(line.strip()) for line in listed if isinstance(line, str)]
    return [one[0].casefold().replace("_", "-") for one in found if one]


class Manifest(NamedTuple):
    """What a file says by being there, and by its text."""

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
    "Gemfile": Manifest(("ruby",), lambda text: _of(_GEM.findall(text))),
    "pom.xml": Manifest(("java", "maven"), lambda text: _of(_ARTIFACT.findall(text))),
    "build.gradle": Manifest(("java", "gradle"), lambda text: _of(_GRADLE.findall(text))),
    "build.gradle.kts": Manifest(("kotlin", "gradle"), lambda text: _of(_GRADLE.findall(text))),
    "composer.json": Manifest(("php",), _composer_json),
    "mix.exs": Manifest(("elixir",)),
    "pubspec.yaml": Manifest(("dart", "flutter")),
    "CMakeLists.txt": Manifest(("c++", "cmake")),
    "Dockerfile": Manifest(("docker",), _docker),
    "compose.yaml": Manifest(("docker",), _docker),
    "docker-compose.yml": Manifest(("docker",), _docker),
    "CLAUDE.md": Manifest((), _page),
    "AGENTS.md": Manifest((), _page),
}
"""The files that are looked for, by name."""
