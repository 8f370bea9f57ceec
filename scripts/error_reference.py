#!/usr/bin/env python3
"""Write the table of docs/reference/errors.md from the classes. With --check, only say whether it is current."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from retrieval.apps.tickets import models as tickets
from retrieval.domain import errors
from retrieval.domain.errors import RetrievalError, RunningLoopError
from retrieval.surfaces.http import problems
from retrieval.surfaces.http.problems import ProblemType, RefusalError, problem_type
from retrieval.surfaces.http.routes import installation

_NEVER = (RetrievalError, RunningLoopError, RefusalError)
"""Errors that HTTP never returns: two base classes, and the error of a running loop."""

_WAITS = {"rate-limited": "as it says", "idempotency-conflict": "1 s while it is in progress"}
"""The times to wait of problems whose time is not always the same."""

HEAD = "| Type | Status | `Retry-After` | What happened | Class |\n|---|---|---|---|---|\n"
"""The header of the table."""


def error_table() -> str:
    """The table at the end of ``docs/reference/errors.md``."""
    rows = [_row(problem_type(kind), f"`{kind.__name__}`") for kind in _classes()]
    rows.append(_row(problem_type(Exception), "any other"))
    return HEAD + "".join(rows)


def _row(kind: ProblemType, name: str) -> str:
    wait = _WAITS.get(kind.name, "" if kind.retry_after is None else f"{kind.retry_after} s")
    return f"| `{kind.type}` | {kind.status} | {wait} | {kind.title} | {name} |\n"


def _classes() -> Iterator[type[RetrievalError]]:
    for module in (errors, problems, tickets, installation):
        yield from (kind for kind in _own(module) if kind not in _NEVER)


def _own(module: ModuleType) -> list[type[RetrievalError]]:
    """The module's errors, in source order."""
    classes = [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == module.__name__]
    return [kind for kind in classes if issubclass(kind, RetrievalError)]


PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "errors.md"


def main() -> int:
    """The exit code: 1 if ``--check`` finds that the page differs from the classes."""
    page = PAGE.read_text(encoding="utf-8")
    new_page = page[: page.index(HEAD)] + error_table()
    if "--check" in sys.argv[1:]:
        if page == new_page:
            return 0
        sys.stderr.write(f"{PAGE} differs from the classes; run: python scripts/error_reference.py\n")
        return 1
    PAGE.write_text(new_page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
