"""The settings of a connection: a setting that may have changed is not taken as known."""

from __future__ import annotations

from collections.abc import Mapping

from retrieval.adapters.store.round_trip import KEPT_SECONDS, Session, set_statement

MINE = {"role": "app", "retrieval.tenant": "1"}
THEIRS = {"role": "app", "retrieval.tenant": "2"}


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The seconds that were set."""
        return self.now


def _used(session: Session, session_settings: Mapping[str, str]) -> list[tuple[str, list[object]]]:
    statements = session.changes(session_settings)
    session.settled(session_settings)
    return [(statement.text, list(statement.parameters.values())) for statement in statements]


def test_a_new_session_is_set_up_whole() -> None:
    """Its former settings and plans do not matter."""
    texts = [text for text, _ in _used(Session(), MINE)]
    assert texts[:2] == ["RESET ALL", "DEALLOCATE ALL"]
    assert "set_config('role'" in texts[2]


def test_unchanged_settings_are_not_set_again() -> None:
    """The same tenant costs nothing; another tenant costs one setting."""
    session = Session()
    _used(session, MINE)
    assert _used(session, MINE) == []
    assert [values for _, values in _used(session, THEIRS)] == [["2"]]


def test_a_setting_that_is_no_longer_requested_is_reset() -> None:
    """The next statement is planned as usual; one statement sets some settings and resets others."""
    session = Session()
    _used(session, {**MINE, "enable_sort": "off"})
    [(text, values)] = _used(session, {**MINE, "jit": "off"})
    assert [name in text for name in ("enable_sort", "jit", "role")] == [True, True, False]
    assert values == [None, "off"]


def test_the_other_settings_of_a_session_can_stay() -> None:
    """A statement that they do not concern changes its tenant alone, and the next search changes nothing."""
    session = Session()
    search = {**THEIRS, "enable_sort": "off"}
    _used(session, {**MINE, "enable_sort": "off"})
    assert [values for _, values in _used(session, session.with_others(THEIRS))] == [["2"]]
    assert _used(session, search) == []


def test_after_a_failure_every_setting_is_sent_again() -> None:
    """The server may or may not have rolled back the settings of the failed transaction."""
    session = Session()
    _used(session, MINE)
    session.keep("statement")
    session.changes(THEIRS)
    assert len(_used(session, MINE)) == 3
    assert session.keep("statement").is_new


def test_no_wish_leaves_the_session_as_it_is() -> None:
    """Behind a pooler each transaction sets its own."""
    assert _used(Session(), {}) == []


def test_a_plan_is_kept_for_a_while() -> None:
    """It may have been made for a table that has grown since; then the former one is dropped."""
    clock = Clock()
    session = Session(clock)
    first = session.keep("statement")
    clock.now = KEPT_SECONDS - 1
    assert (session.keep("statement").name, session.keep("statement").is_new) == (first.name, False)
    clock.now = KEPT_SECONDS + 1
    again = session.keep("statement")
    assert (again.is_new, again.dropped) == (True, first.name)


def test_the_prepared_statements_of_a_connection_are_bounded() -> None:
    """The statement that was not used for longest makes room, however many tenants there are."""
    session = Session(most=3)
    names = {number: session.keep(number).name for number in range(3)}
    session.keep(0)
    assert session.keep(3).dropped == names[1]
    assert not session.keep(0).is_new
    for number in range(10_000):
        session.keep(number)
    assert len(session._statements) == 3  # noqa: SLF001


def test_values_are_parameters() -> None:
    """Names are the platform's own; a value never becomes part of the text."""
    statement = set_statement({"retrieval.tenant": "1'; DROP TABLE items; --"}, is_local=True)
    assert "DROP" not in statement.text
