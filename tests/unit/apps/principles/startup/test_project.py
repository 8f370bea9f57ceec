"""The tags of a project from its folder: manifests, headings, keywords, languages, with any other files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retrieval.apps.principles.startup.project import (
    MANIFESTS,
    MOST_CHARACTERS,
    headings,
    keywords,
    parse_toml,
    project_tags,
    read_part,
    tags_of_files,
    tags_of_manifest,
)

PACKAGE = '{"dependencies": {"react": "19"}}'


def test_every_manifest_of_the_folder_counts(tmp_path: Path) -> None:
    """Each tag once."""
    (tmp_path / "package.json").write_text(PACKAGE)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["Django"]')
    (tmp_path / "CLAUDE.md").write_text("# Frontend\n# Accessibility")
    tags = project_tags(tmp_path)
    assert {"javascript", "react", "frontend", "python", "django", "backend", "accessibility"} <= set(tags)
    assert len(tags) == len(set(tags))


def test_the_tools_that_scripts_call_count() -> None:
    """As dependencies do; other words of scripts do not."""
    tags = tags_of_manifest("package.json", '{"scripts": {"test": "jest --ci", "lint": "eslint .", "go": "./run"}}')
    assert {"jest", "testing", "eslint", "linting"} <= set(tags)
    assert not {"run", "--ci"} & set(tags)
    assert tags_of_manifest("package.json", '{"scripts": []}') == ["javascript", "node"]


def test_within_a_repository_those_above_count_too(tmp_path: Path) -> None:
    """Up to its top, and not beyond; after those of the folder itself."""
    inner = tmp_path / "repository" / "packages" / "web"
    inner.mkdir(parents=True)
    (tmp_path / "Cargo.toml").write_text("")
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "go.mod").write_text("")
    (inner / "Gemfile").write_text("")
    assert project_tags(inner) == ("ruby", "go")


def test_outside_of_one_the_folder_alone_counts(tmp_path: Path) -> None:
    """Folders above it do not belong to the project."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "inner").mkdir()
    assert project_tags(tmp_path / "inner") == ()


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    """Its ``.git`` is a file."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / ".git").write_text("gitdir: ../.git/modules/part")
    assert project_tags(tmp_path / "part") == ()


def test_paths_that_are_not_files_are_skipped(tmp_path: Path) -> None:
    """A folder, a pipe, a socket's name, a loop of links, a link to nowhere."""
    (tmp_path / "package.json").mkdir()
    os.mkfifo(tmp_path / "pyproject.toml")
    (tmp_path / "go.mod").symlink_to("go.mod")
    (tmp_path / "Gemfile").symlink_to("missing")
    assert project_tags(tmp_path) == ()


def test_a_device_is_passed_over(tmp_path: Path) -> None:
    """Reading it would have no end."""
    (tmp_path / "requirements.txt").symlink_to("/dev/zero")
    assert project_tags(tmp_path) == ()


def test_a_huge_manifest_says_what_its_name_says(tmp_path: Path) -> None:
    """A hundred megabytes are not read."""
    with (tmp_path / "package.json").open("w") as file:
        file.write(PACKAGE)
        file.truncate(100 * 1024 * 1024)
    assert project_tags(tmp_path) == ("javascript", "node")


def test_a_long_page_is_read_in_part(tmp_path: Path) -> None:
    """Its beginning is informative too."""
    (tmp_path / "AGENTS.md").write_text("# Observability\n" + "text\n" * 100_000 + "# Never\n")
    assert project_tags(tmp_path) == ("observability",)


@pytest.mark.parametrize("written", [b"\xff\xfe\x00{", b"\x89PNG\r\n", bytes(range(256)) * 50])
def test_a_binary_manifest_says_what_its_name_says(tmp_path: Path, written: bytes) -> None:
    """It is not UTF-8."""
    (tmp_path / "pyproject.toml").write_bytes(written)
    assert project_tags(tmp_path) == ("python",)


def test_names_that_no_tag_can_be_are_left_out(tmp_path: Path) -> None:
    """A NUL, half of a surrogate pair, a page of text: PostgreSQL could not store them, or they would never match."""
    names = {"nul\u0000": "1", "half\ud800": "1", "line\nend": "1", "long" * 50: "1", "fine": "1"}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": names}))
    assert project_tags(tmp_path) == ("javascript", "node", "fine")


def test_there_are_never_more_tags_than_can_be_compared(tmp_path: Path) -> None:
    """A project may have thousands of dependencies."""
    for name in ("requirements.txt", "Gemfile", "pyproject.toml", "package.json", "composer.json"):
        packages = [f"{name}-package{number}" for number in range(5000)]
        text = {
            "requirements.txt": "\n".join(packages),
            "Gemfile": "\n".join(f"gem '{package}'" for package in packages),
            "pyproject.toml": f"[project]\ndependencies = {packages}",
            "package.json": json.dumps({"dependencies": dict.fromkeys(packages, "1")}),
            "composer.json": json.dumps({"require": dict.fromkeys(packages, "1")}),
        }[name]
        (tmp_path / name).write_text(text)
    assert len(project_tags(tmp_path)) == 150


def test_a_long_manifest_does_not_hide_what_the_others_say(tmp_path: Path) -> None:
    """Names of packages that say no more come last, some of each manifest."""
    many = {f"unknown-{number}": "1" for number in range(190)}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": {**many, "react": "19"}}))
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["fastapi", "my-own-library"]')
    (tmp_path / "Dockerfile").write_text("FROM postgres:16")
    (tmp_path / "CLAUDE.md").write_text("# Accessibility")
    tags = project_tags(tmp_path)

    assert tags[:2] == ("javascript", "node")
    assert {"react", "python", "fastapi", "docker", "postgres", "accessibility", "my-own-library"} <= set(tags)
    assert tags.index("accessibility") < tags.index("unknown-0")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_is_not_ours_to_read_is_passed_over(tmp_path: Path) -> None:
    """Nothing is raised."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "go.mod").chmod(0)
    assert project_tags(tmp_path) == ()


def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    """Such a name raises nothing."""
    assert read_part(tmp_path / "a\x00b") is None
    assert read_part(tmp_path / ("n" * 5000)) is None


def test_after_the_deadline_no_more_files_are_read(tmp_path: Path) -> None:
    """A folder of many costly ones does not take all of a session's time."""
    (tmp_path / "go.mod").write_text("")
    assert project_tags(tmp_path, deadline=0) == ()


REQUIREMENTS = """
# a comment
-r other.txt
Django>=5
psycopg[binary]==3.2 ; python_version > "3.10"
"""
PYPROJECT = """
[project]
name = "shop"
keywords = ["search engine"]
dependencies = ["fastapi>=0.1", "SQLAlchemy[asyncio]", "my_tool"]
[project.optional-dependencies]
dev = ["pytest"]
[dependency-groups]
docs = ["sphinx", {include-group = "dev"}]
[tool.poetry.dependencies]
python = "^3.11"
redis = "*"
[tool.poetry.group.test.dependencies]
hypothesis = "*"
[tool.ruff]
"""
CARGO = "[package]\nname='x'\n[dependencies]\naxum='0.7'\ntokio={version='1'}\n[workspace.dependencies]\nsqlx='1'\n"
GO_MOD = """module example.org/shop

go 1.22

require github.com/spf13/cobra v1.8.0
require (
\tgithub.com/gin-gonic/gin v1.9.1
\tgithub.com/jackc/pgx/v5 v5.5.0 // indirect
)
"""
GEMFILE = "source 'https://example.org'\ngem 'rails', '~> 7'\n  gem \"rspec-rails\"\n# gem 'pg'\n"
POM = "<dependency><artifactId> spring-boot-starter-web </artifactId></dependency><artifactId>junit</artifactId>"
GRADLE = "implementation 'org.springframework:spring-core:6.1'\ntestImplementation(\"junit:junit:4.13\")"
DOCKERFILE = "FROM --platform=linux/amd64 docker.io/library/Postgres:16 AS db\nRUN x\nfrom scratch\n"
PAGE = "# Testing rules\n```\n# not this\n```\n## Error-handling\nprose about kubernetes\n"


@pytest.mark.parametrize(
    ("name", "text", "tags"),
    [
        (
            "package.json",
            json.dumps({"name": "@me/shop-ui", "dependencies": {"react": "19"}, "devDependencies": {"jest": "1"}}),
            {"javascript", "react", "frontend", "jest", "testing", "shop"},
        ),
        ("package.json", '{"dependencies": {"express": "4"}}', {"express", "backend"}),
        ("package.json", '\ufeff{"dependencies": ["react"]}', {"javascript", "node"}),
        (
            "pyproject.toml",
            PYPROJECT,
            {"python", "fastapi", "backend", "sqlalchemy", "database", "my-tool", "pytest", "testing", "sphinx",
             "redis", "cache", "hypothesis", "ruff", "linting", "search", "engine"},
        ),
        ("requirements.txt", REQUIREMENTS, {"python", "django", "backend", "postgresql", "database"}),
        ("Cargo.toml", CARGO, {"rust", "axum", "backend", "tokio", "async", "sqlx", "database"}),
        ("go.mod", GO_MOD, {"go", "cobra", "cli", "gin", "backend", "pgx", "postgresql"}),
        ("Gemfile", GEMFILE, {"ruby", "rails", "backend", "rspec", "testing"}),
        ("pom.xml", POM, {"java", "spring", "backend", "junit", "testing"}),
        ("build.gradle", GRADLE, {"java", "gradle", "spring", "junit"}),
        ("composer.json", '{"require": {"laravel/framework": "11"}}', {"php", "laravel", "backend"}),
        ("Dockerfile", DOCKERFILE, {"docker", "postgres"}),
        ("compose.yaml", "services:\n  cache:\n    image: 'redis:7'\n", {"docker", "redis"}),
        ("CLAUDE.md", PAGE, {"testing", "rules", "error-handling"}),
        ("AGENTS.md", PAGE, {"testing", "rules", "error-handling"}),
    ],
)  # fmt: skip
def test_a_manifest_has_the_tags_of_its_kind_and_its_dependencies(name: str, text: str, tags: set[str]) -> None:
    """They include the packages' own names, and their purposes."""
    assert tags <= set(tags_of_manifest(name, text))
    assert "kubernetes" not in tags_of_manifest(name, text)
    assert "not" not in tags_of_manifest(name, text)


BROKEN = [
    "",
    "{",
    "null",
    "[]",
    "3",
    '"text"',
    '{"dependencies": null, "keywords": 3, "name": [1]}',
    '{"dependencies": {"react"',
    "[" * 100_000,
    '{"a":' * 100_000,
    "[project]\ndependencies = 3\nkeywords = 'x'\n[tool]\npoetry = 1",
    "[tool.poetry.group]\ntest = 1",
    "project = 'x'\ntool = []\ndependencies = 1\nworkspace = 2",
    "a = [" + "[" * 5_000,
    "\x00\x01\x02\ufffd" * 100,
    "\n" * 50_000,
    " \t" * 20_000,
    "FROM " * 10_000,
    "<artifactId>" * 5_000,
    "'a:" * 20_000,
    "gem " * 10_000,
    "require a/" * 5_000,
]


def test_a_broken_manifest_says_what_its_name_says() -> None:
    """Nothing is raised, and nothing takes long, whatever the text."""
    for name, manifest in MANIFESTS.items():
        for text in BROKEN:
            assert set(manifest.tags) <= set(tags_of_manifest(name, text)), (name, text[:50])


COSTLY = {
    "one key of many parts": "a." * 20_000 + "a = 1",
    "keys of many parts": "".join(f"k{number}." + "a." * 100 + "a = 1\n" for number in range(200)),
    "many keys below a header of many parts": f"[{'a.' * 100}a]\n" + "".join(f"k{n} = 1\n" for n in range(5_000)),
    "a key behind a text that looks like a comment": 'x = {a = """\n#""", ' + "a." * 2_000 + "a = 1}",
    "a long text": "#" * (MOST_CHARACTERS + 1),
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_texts_that_take_long_to_parse_are_refused(text: str) -> None:
    """The parser's time grows with the square of the parts."""
    with pytest.raises(ValueError, match="too much to be parsed"):
        parse_toml(text)


def test_usual_project_files_are_parsed() -> None:
    """Long lists on one line, and tables in tables."""
    listed = ", ".join(f'"package-{number}>=1.{number}.0"' for number in range(150))
    text = f"[project]\ndependencies = [{listed}]\n" + "[tool.a.b.c.d]\n" + "".join(f"k{n} = 1\n" for n in range(2_000))
    parsed = parse_toml(text)
    assert len(parsed["project"]["dependencies"]) == 150
    assert len(parsed["tool"]["a"]["b"]["c"]["d"]) == 2_000


def test_headings_of_every_level_are_found_without_their_signs() -> None:
    """A sign without a blank, or seven of them, makes none."""
    page = "# Testing\ntext\n## Database access ##\n#tag\n####### seven\n###\tTabs\n"
    assert headings(page) == ["Testing", "Database access", "Tabs"]


def test_a_line_in_code_is_not_a_heading() -> None:
    """A comment of a shell script looks like one."""
    assert headings("```sh\n# install\n```\n# Real\n~~~\n# no\n```\n# still no\n~~~\n# Last") == ["Real", "Last"]


def test_a_page_of_headings_is_read_in_part() -> None:
    """At most a hundred."""
    assert len(headings("# one\n" * 1000)) == 100


def test_words_of_most_texts_come_first() -> None:
    """A word counts once a text; ties keep the order of first occurrence."""
    words = keywords(["Retry timeouts, retry!", "Timeouts in the parser", "Parser of timeouts"])
    assert words == ("timeouts", "parser", "retry")
    assert keywords(["हिन्दी भाषा"]) == ("हिन्दी", "भाषा")


def test_stop_words_and_those_of_commits_are_left_out() -> None:
    """Words of every commit message are not keywords."""
    assert keywords(["fix: update the pagination and merge branch 'main' into it"]) == ("pagination",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("error-handling", ("error-handling", "error", "handling")),
        ("snake_case names", ("snake_case", "snake", "case", "names")),
        ("C# and F# for .NET", ("c#", "f#", "net")),
        ("port to c++", ("port", "c++")),
        ("bump 1.2.3 to 2026-11-22", ()),
        ("Größe größe", ("größe",)),
        ("", ()),
        ("🙂 -- ... ___", ()),
        ("x" * 41, ()),
    ],
)
def test_compounds_and_their_parts_are_words(text: str, words: tuple[str, ...]) -> None:
    """Compounds count as a whole and by their parts; numbers, and too short or too long words, do not."""
    assert set(keywords([text])) == {tag.casefold() for tag in words}


def test_there_are_never_more_than_requested() -> None:
    """The length of the texts does not matter."""
    assert len(keywords([f"word{number}" for number in range(500)])) == 50
    assert len(keywords(["alpha beta gamma delta"], most=2)) == 2


def test_a_huge_text_is_read_in_part() -> None:
    """A subject may be a whole paragraph of a generated commit."""
    assert "last" not in keywords(["word " * 100_000 + "last"])


@pytest.mark.parametrize(
    ("path", "tags"),
    [
        ("src/app.tsx", {"typescript"}),
        ("tests/test_api.py", {"python", "testing"}),
        ("web/button.spec.ts", {"typescript", "testing"}),
        ("db/migrations/0001.SQL", {"sql", "migrations"}),
        (".github/workflows/ci.yml", {"ci"}),
        ("docker/Dockerfile", {"docker"}),
        ("LICENSE", set()),
        ("weird\nname.rs", {"rust"}),
        ("", set()),
    ],
)
def test_a_file_has_the_tags_of_its_ending_and_its_folders(path: str, tags: set[str]) -> None:
    """The case of its name does not matter."""
    assert set(tags_of_files([path])) == tags


def test_the_most_frequent_tags_come_first() -> None:
    """Tags of equal frequency are in order of appearance."""
    assert tags_of_files(["a.go", "b.py", "c.py", "d.rs"]) == ("python", "go", "rust")
