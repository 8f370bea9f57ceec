"""Errors as a client of the MCP server meets them."""

from __future__ import annotations

import pytest

from retrieval.domain import errors
from retrieval.surfaces.mcp.failures import UNEXPECTED, failure_line, is_the_callers

INSIDE = "relation \"retrieval.items\" at /var/lib/retrieval/socket, database 'principles'"


def server_errors() -> list[type[errors.RetrievalError]]:
    """Every error of the tree that the caller cannot mend by asking otherwise."""
    kinds, waiting = [], [errors.RetrievalError]
    while waiting:
        kind = waiting.pop()
        kinds.append(kind)
        waiting += kind.__subclasses__()
    ours = [kind for kind in kinds if not kind.__module__.startswith("retrieval.surfaces.http.")]
    the_callers = errors.InvalidRequestError | errors.NotFoundError | errors.ConflictError
    return [kind for kind in ours if not issubclass(kind, the_callers)]


@pytest.mark.parametrize("kind", server_errors())
def test_a_failure_of_the_server_reveals_no_internals(kind: type[errors.RetrievalError]) -> None:
    """One line, with neither SQL nor paths nor addresses, that says what to do."""
    line = failure_line(kind(f"{INSIDE}\n  SELECT 1"))
    assert "\n" not in line
    assert not {"SELECT", "/var", "items", "'principles'"} & set(line.split())
    assert any(advice in line for advice in ("ry again", "retrieval db", "see its log", "server's log"))


def test_an_unreachable_database_is_distinguished_from_one_that_refuses() -> None:
    """For the first comes back by itself."""
    away = failure_line(errors.DatabaseUnreachableError(INSIDE))
    assert "reconnects by itself" in away
    assert "reconnects" not in failure_line(errors.MissingPrivilegeError(INSIDE))
    assert "retrieval db upgrade" in failure_line(errors.SchemaRevisionError(INSIDE))


def test_an_error_of_the_caller_is_explained_in_full() -> None:
    """On one line, since it says how to ask."""
    error = errors.UnknownItemError("there is no principle 'p9';\nsearch for it first")
    assert is_the_callers(error)
    assert is_the_callers(errors.VersionConflictError("it was changed", item_id="p9"))
    assert failure_line(error) == "there is no principle 'p9'; search for it first"
    hint = "there is no collection 'a'; did you mean 'a  b'?"
    assert failure_line(errors.UnknownCollectionError(hint)) == hint


def test_an_advice_is_worded_for_an_agent() -> None:
    """An agent has no command line: it can call otherwise, or ask its user."""
    error = errors.InvalidRequestError("nothing is calibrated").advising(errors.Advice.CALIBRATE, name="notes")
    assert failure_line(error).startswith("nothing is calibrated; leave min_relevance out, or let the user fit it")


def test_a_fault_of_the_program_reveals_nothing() -> None:
    """Not even its kind."""
    assert failure_line(KeyError("secret")) == UNEXPECTED
