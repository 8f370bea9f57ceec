"""The SQL that is installed in the database: the files of ``sql/`` with the installation's names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.domain.errors import ConfigurationError

if TYPE_CHECKING:
    import sqlalchemy as sa

_PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one installation, which all derive from its schema's name."""

    schema: str

    @property
    def app_role(self) -> str:
        """The role that the platform acts as."""
        return f"{self.schema}_app"

    @property
    def definer_role(self) -> str:
        """The role that owns the functions which bypass the policies."""
        return f"{self.schema}_definer"

    @property
    def analyst_role(self) -> str:
        """The role of logins that read one tenant's figures."""
        return f"{self.schema}_analyst"

    @property
    def jobs_schema(self) -> str:
        """The schema that holds the queue of jobs."""
        return f"{self.schema}_jobs"


def quote_identifier(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """A relation's name in SQL, with its schema."""
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def in_template(name: str) -> str:
    """The name for a statement with parameters, in which the driver takes a percent sign for a placeholder."""
    return name.replace("%", "%%")


def quote_literal(value: str) -> str:
    """The value as an SQL string literal, for names in definitions; a caller's values are always parameters."""
    # A dollar sign could end the quoting of a function's body that contains the literal.
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("$", "\\x24")
    return f" E'{escaped}'" if "\\" in escaped else f"'{escaped}'"


def verbatim(statement: str) -> sa.TextClause:
    """The statement for SQLAlchemy, unchanged: no colon in it names a parameter."""
    import sqlalchemy as sa

    return sa.text(statement.replace(":", r"\:"))


def directory(name: str) -> Path:
    """``migrations`` or ``sql``: inside the installed package, or beside it in a checkout."""
    for path in (_PACKAGE / f"_{name}", _PACKAGE.parent / name):
        if path.is_dir():
            return path
    raise ConfigurationError(f"the folder {name!r} is missing from the installation; install the package again")


@cache
def build() -> str:
    """Identifies the SQL that this program installs, without comments: 16 hexadecimal digits."""
    digest = blake2b(digest_size=8)
    for path in sorted(directory("sql").rglob("*.sql")):
        lines = path.read_text(encoding="utf-8").splitlines()
        code = (line.strip() for line in lines if not line.strip().startswith("--"))
        digest.update("\n".join([path.name, *filter(None, code)]).encode())
    return digest.hexdigest()


def installed_sql(name: str, names: Names) -> str:
    """The text of ``sql/<name>.sql`` for this installation."""
    path = directory("sql") / f"{name}.sql"
    text = path.read_text(encoding="utf-8")
    owns = {
        "schema": names.schema, "jobs": names.jobs_schema, "app": names.app_role, "definer": names.definer_role,
        "analyst": names.analyst_role,
    }  # fmt: skip
    replacements = {f"@{key}@": quote_identifier(own) for key, own in owns.items()}
    replacements |= {f"@{key}_literal@": quote_literal(own) for key, own in owns.items()}
    return re.sub("|".join(replacements), lambda match: replacements[match[0]], text)
