"""Schema revisions as this code knows them, and what one that is found in a database means.

Read from the migrations' files without loading Alembic, so that opening a platform stays quick.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from retrieval.adapters.store.installed_sql import directory
from retrieval.domain.errors import DatabaseError, SchemaRevisionError


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The schema's revision compared with the revision that this code needs."""

    schema: str
    current: str | None
    """The revision in the database; None before the first upgrade."""
    head: str
    """The revision that this code needs."""
    known: bool
    """Whether this code knows the current revision; if not, the schema is ahead."""

    @property
    def is_current(self) -> bool:
        """Whether the two agree."""
        return self.current == self.head

    def check(self) -> None:
        """Raise ``SchemaRevisionError`` unless the schema is the one that this code needs."""
        if self.is_current:
            return
        if self.current is None:
            raise SchemaRevisionError(
                f"schema {self.schema!r} is not set up in this database; run: retrieval db upgrade"
            )
        if not self.known:
            raise SchemaRevisionError(
                f"schema {self.schema!r} is at revision {self.current}, which this version of the program does not "
                f"know (it needs {self.head}); install the newer program, or run its: "
                f"retrieval db downgrade {self.head}"
            )
        raise SchemaRevisionError(
            f"schema {self.schema!r} is at revision {self.current} and this program needs {self.head}; "
            "run: retrieval db upgrade"
        )


def head_revision() -> str:
    """The newest revision that this code knows."""
    known = known_revisions()
    heads = known.keys() - set(known.values())
    if len(heads) != 1:
        raise DatabaseError("the migrations of the installation are not whole; install the package again")
    return heads.pop()


def newest_revision() -> str:
    """The same by the name of its file: a blink, for who only wants to know whether a schema is current."""
    return max(path.name[:4] for path in _files())


def status_of(schema: str, current: str | None) -> SchemaStatus:
    """Compare a revision found in the database with the revision that this code needs."""
    return SchemaStatus(schema, current, head_revision(), current in known_revisions())


@cache
def known_revisions() -> Mapping[str, str | None]:
    """Every revision of the installation, with the one that it follows."""
    return dict(map(_revision, _files()))


def _files() -> Iterator[Path]:
    return (directory("migrations") / "versions").glob("[0-9]*.py")


def _revision(path: Path) -> tuple[str, str | None]:
    """``revision`` and ``down_revision``, the constants at the top of a migration."""
    values = {
        target.id: ast.literal_eval(line.value)
        for line in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id in {"revision", "down_revision"}
    }
    return values["revision"], values["down_revision"]
