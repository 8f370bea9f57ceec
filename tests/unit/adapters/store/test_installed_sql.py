"""The SQL that is installed: every file, with an installation's own names in it, whatever they are."""

from __future__ import annotations

import hashlib
import re

import pytest
from procrastinate.schema import SchemaManager
from psycopg import sql

from retrieval.adapters.store.installed_sql import (
    Names,
    directory,
    installed_sql,
    quote_identifier,
    quote_literal,
    verbatim,
)
from retrieval.domain.errors import ConfigurationError

FILES = sorted(
    path.relative_to(directory("sql")).with_suffix("").as_posix() for path in directory("sql").rglob("*.sql")
)
ODD = ['we"ird \\sch ä', "Upper Case", "quote'd", "100% mine", "a:b :c", "dollar$$body$policies$"]


def test_the_names_follow_the_schemas() -> None:
    """Two installations of one server never share a role."""
    names = Names("mine")
    assert (names.app_role, names.definer_role, names.analyst_role) == ("mine_app", "mine_definer", "mine_analyst")


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_what_it_is_for_and_leaves_no_name_open(name: str) -> None:
    """It starts with a comment, and every placeholder is replaced."""
    text = installed_sql(name, Names("mine"))
    assert text.startswith("-- ")
    assert re.findall(r"@\w+@", text) == []


@pytest.mark.parametrize("name", FILES)
def test_no_name_stands_unprotected_inside_a_quoted_body(name: str) -> None:
    """Within a function's or a block's body names come as literals: an identifier would be a string's part there."""
    text = (directory("sql") / f"{name}.sql").read_text(encoding="utf-8")
    for _, body in re.findall(r"\$(\w*)\$(.*?)\$\1\$", text, flags=re.DOTALL):
        assert re.findall(r"@(?:schema|app|definer|analyst)@", body) == []


@pytest.mark.parametrize("name", ODD)
def test_names_are_quoted_as_the_driver_would(name: str) -> None:
    """Identifiers are as psycopg writes them; literals hold nothing that could end them or the body around them."""
    assert quote_identifier(name) == sql.Identifier(name).as_string()
    literal = quote_literal(name)
    inner = literal.strip().removeprefix("E")[1:-1]
    assert "$" not in literal
    assert "'" not in inner.replace("''", "")


@pytest.mark.parametrize("name", ODD)
def test_a_statement_reaches_the_server_as_it_stands(name: str) -> None:
    """No colon becomes a parameter, and no percent sign is lost."""
    from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

    statement = f"SET search_path = {quote_identifier(name)}, x::text"
    result = verbatim(statement).compile(dialect=PGDialect_psycopg())  # type: ignore[no-untyped-call]
    assert str(result).replace("%%", "%") == statement
    assert not result.params


def test_a_folder_that_is_missing_says_what_to_do() -> None:
    """A broken installation is named as such."""
    with pytest.raises(ConfigurationError, match="install the package again"):
        directory("nothing")


def test_the_queue_is_made_by_the_release_that_the_revision_was_written_for() -> None:
    """A release with other tables needs a revision of its own, and its range in pyproject.toml moved."""
    schema = "".join(SchemaManager.get_schema().split())
    assert hashlib.sha256(schema.encode()).hexdigest().startswith("4ac2e13891803511")
