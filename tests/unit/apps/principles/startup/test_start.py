"""The principles at the start of a session, as they are shown and recorded."""

from __future__ import annotations

import json
import random

from retrieval.apps.principles.principle import SESSION_START, FoundPrinciple, Principle
from retrieval.apps.principles.startup.start import SessionStart, composed_answer
from retrieval.apps.principles.startup.surroundings import Surroundings
from retrieval.domain.checks import STORED_NOTE
from retrieval.domain.records.retrieval_id import uuid7

PROVEN = Principle(id="bind", title="Bind parameters", body="\n Injections. \nMore", tags=("sql",), use_count=8,
                   success_count=6, added_by="ann")  # fmt: skip
NEW = Principle(id="lock", title="Lock\nlate \x1b[31m", body="", tags=("sql", "locks"), status="candidate")
SHOWN = (
    FoundPrinciple(PROVEN, 0.8),
    FoundPrinciple(NEW, 0.6, is_exploratory=True, propensity=0.25, rank_propensity=0.125),
)
STARTED = SessionStart(
    session="s-1",
    surroundings=Surroundings(
        recent_commits=("Retry of SQL timeouts",),
        changed_files=("db/query.sql",),
        project_tags=("postgresql", "sql"),
        keywords=("retry", "sql", "timeouts"),
    ),
    recent_tags=("locks", "sql"),
    principles=SHOWN,
)


def test_the_text_is_a_short_list() -> None:
    """A line each with id, mark of exploration, title, first line of the body and tags, without control characters."""
    assert STARTED.as_text().splitlines() == [
        "# Principles for this session",
        "",
        STORED_NOTE,
        "",
        '- **[bind]** "Bind parameters": "Injections." [sql] · added by ann · helped in 6 of 8 uses',
        '- **[lock]** (exploring) "Lock late" [sql, locks] · added by nobody named · not rated yet',
        "",
        "Session s-1. Rate those that helped or misled by their id (rate_principle).",
    ]


def test_without_principles_there_is_no_text() -> None:
    """The output becomes part of the session."""
    nothing = SessionStart(session="s", surroundings=Surroundings(), recent_tags=(), principles=())
    assert nothing.as_text() == ""
    assert nothing.as_dict()["principles"] == []


def test_a_long_title_is_cut() -> None:
    """A page in the place of a line would push the rest away."""
    wordy = Principle(id="w", title="word " * 1000, body="x" * 1000)
    line = SessionStart(
        session="s", surroundings=Surroundings(), recent_tags=(), principles=(FoundPrinciple(wordy, 0.5),)
    ).as_text().splitlines()[4]  # fmt: skip
    assert len(line) < 700
    assert '…": "x' in line


def test_json_says_why() -> None:
    """It has the context, and the parts of each principle's score."""
    payload = json.loads(json.dumps(STARTED.as_dict()))
    assert payload["session_id"] == "s-1"
    assert payload["context"] == {
        "recent_commits": ["Retry of SQL timeouts"],
        "changed_files": ["db/query.sql"],
        "project_tags": ["postgresql", "sql"],
        "recent_session_tags": ["locks", "sql"],
        "keywords": ["retry", "sql", "timeouts"],
    }
    first, second = payload["principles"]
    assert (first["id"], first["score"], first["principle_score"], first["success_rate"]) == ("bind", 0.8, 0.7, 0.75)
    assert (first["matching_tags"], first["is_exploratory"], first["summary"]) == (["sql"], False, "Injections.")
    assert (second["matching_tags"], second["propensity"], second["status"]) == (["sql", "locks"], 0.25, "candidate")
    assert payload["explored"] == ["lock"]


def test_the_answer_is_recorded_with_its_chance() -> None:
    """The tags are the query, the parts of each score are signals, and seed and competitors are recorded."""
    record = composed_answer(
        STARTED, retrieval_id=uuid7(0, random.Random(1)), collection_id=7, seed=11, eligible=3, took_ms=12.5
    ).record()
    assert record.query == "postgresql sql retry timeouts locks"
    assert (record.session, record.origin) == ("s-1", SESSION_START)
    assert record.shown_items == ["bind", "lock"]
    assert isinstance(record.shown_signals, list)
    assert record.shown_signals[0] == {"principle_score": {"raw": 0.7}, "tag_match": {"raw": 0.1}}
    assert (record.seed, record.eligible, record.policy) == (11, 3, f"{SESSION_START}/1")
    assert (record.propensities, record.rank_propensities) == ([1.0, 0.25], [1.0, 0.125])


def test_a_certain_answer_has_no_policy() -> None:
    """And a session of which nothing is known still asks for something."""
    plain = SessionStart(session="s", surroundings=Surroundings(), recent_tags=(), principles=SHOWN[:1])
    record = composed_answer(
        plain, retrieval_id=uuid7(0, random.Random(1)), collection_id=1, seed=1, eligible=0, took_ms=1.0
    ).record()
    assert (record.policy, record.query, record.score_spread) == ("off/1", SESSION_START, 0.0)
