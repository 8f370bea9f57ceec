"""Manifests say what a project is made of; broken ones say what their names say."""

from __future__ import annotations

import json

import pytest

from retrieval.apps.principles.startup.project import MANIFESTS, tags_of_manifest

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
        ("README.md", PAGE, set()),
    ],
)  # fmt: skip
def test_a_manifest_has_the_tags_of_its_kind_and_its_dependencies(name: str, text: str, tags: set[str]) -> None:
    """With the packages' own names, and what they are good for."""
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
    for name, known in MANIFESTS.items():
        for text in BROKEN:
            assert set(known.tags) <= set(tags_of_manifest(name, text)), (name, text[:50])


def test_one_that_could_not_be_read_does_so_too() -> None:
    """A huge file, say."""
    assert {name: tuple(tags_of_manifest(name, None)) for name in MANIFESTS} == {
        name: known.tags for name, known in MANIFESTS.items()
    }
