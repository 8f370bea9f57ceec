"""The error tree: one root, and drawn as it is."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from retrieval.domain import errors

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
"""All errors of the module. (The root's home is ``retrieval`` after its first use from there.)"""


@pytest.mark.parametrize("error", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_hangs_on_the_root_and_says_what_it_is(error: type[Exception]) -> None:
    """Catching the root catches all; each has a docstring of its own."""
    assert issubclass(error, errors.RetrievalError)
    assert error.__doc__


def test_the_drawing_shows_every_error_under_its_parent() -> None:
    """The tree at the top of the module is the tree in the code."""
    lines = [
        (len(match[1]) // 4, match[2])
        for match in re.finditer(r"^    ([├└│─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    ]
    parents: list[str] = []
    drawn = {}
    for depth, name in lines:
        parents[depth:] = [name]
        drawn[name] = parents[depth - 1] if depth else "Exception"
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES}


def test_a_bad_line_says_where_it_is() -> None:
    """File, line and reason, as editors read them."""
    error = errors.BadLineError("tickets.jsonl", 7, "no id")
    assert str(error) == "tickets.jsonl:7: no id"
    assert (error.file, error.line, error.reason) == ("tickets.jsonl", 7, "no id")


@pytest.mark.parametrize(
    "error",
    [
        errors.BadLineError("tickets.jsonl", 7, "no id"),
        errors.VersionConflictError("item 'a' does not exist", item_id="a"),
        errors.InvalidItemError("item 'a': no text", item_id="a").at("items", 0).advising(errors.Advice.CLEAN_TEXT),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_be_sent_to_another_process_and_copied(error: errors.RetrievalError) -> None:
    """A pool of processes waits for ever for an error that it cannot read."""
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
        assert (type(same), str(same), same.args, vars(same)) == (type(error), str(error), error.args, vars(error))
