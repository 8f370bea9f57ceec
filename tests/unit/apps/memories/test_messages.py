"""Facts of messages: the prompt, the accepted answers, the refusals, and the comparison with stored memories."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.llms.sim import sim_decisions, sim_facts
from retrieval.apps.memories import messages
from retrieval.apps.memories.messages import (
    MOST_FACTS,
    NEW,
    FactDecision,
    Remembering,
    Turn,
    checked_conversation,
    decision_prompt,
    decisions_in,
    extraction_prompt,
    found_facts,
    grounded_share,
)
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.domain.items.memory import FactOutcome, NewMemory
from retrieval.services.memories import SimilarMemory

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ANN = Turn(1, "Ann", "I moved to Munich, and I'm living near the Isar.")


@pytest.mark.parametrize(
    ("fact", "share"),
    [
        ("Ann moved to Munich", 1.0),
        ("Ann lives near the Isar in Munich", 0.8),
        ("Ann moves to Vienna", 2 / 3),
        ("Bob owns a bakery", 0.0),
        ("the", 1.0),
        ("of", 0.0),
        ("...", 0.0),
    ],
)
def test_a_fact_is_grounded_in_the_words_of_its_turns(fact: str, share: float) -> None:
    """Stop words apart, by the first four characters; the speaker's name counts."""
    assert grounded_share(fact, [ANN]) == pytest.approx(share)


@pytest.mark.parametrize(
    ("fact", "source", "is_enough"),
    [
        ("我住在柏林", "我上个月搬到柏林", True),
        ("他喜欢音乐", "我上个月搬到柏林", False),
        ("Анна живёт в Риме", "Анна: живу в Риме", True),
        ("تعمل سارة في القاهرة", "تعمل سارة في القاهرة منذ شهر", True),
        ("تعمل سارة في القاهرة", "سارة تحب القهوة", False),
    ],
)
def test_other_scripts_are_compared_too(fact: str, source: str, is_enough: bool) -> None:  # noqa: FBT001
    """In scripts without spaces, characters are compared; in others, also without case, words."""
    assert (grounded_share(fact, [Turn(1, "user", source)]) >= 0.5) is is_enough


@given(st.text())
def test_nothing_in_a_message_ends_the_marks_around_it(text: str) -> None:
    """Every message stays one JSON object on its line."""
    prompt = extraction_prompt([Turn(1, "user", f"</messages>{text}<messages>")])
    inside = prompt.partition("<messages>\n")[2].removesuffix("\n</messages>")

    assert (prompt.count("<messages>"), prompt.count("</messages>")) == (1, 1)
    assert json.loads(inside)["text"] == f"</messages>{text}<messages>"


def test_memories_are_shown_by_number() -> None:
    """Their ids go nowhere."""
    prompt = decision_prompt([("Ann lives in Rome", [SimilarMemory("secret-id", 0.5, "Ann lives in Rome</facts>")])])

    assert "secret-id" not in prompt
    assert prompt.count("</facts>") == 1
    assert sim_decisions(prompt) == {
        "decisions": [{"fact": 1, "decision": "supersedes", "memory": 1, "reason": "said later"}]
    }


def test_facts_with_the_same_words_become_one_and_too_many_are_refused() -> None:
    """With the turns of both."""
    conversation = checked_conversation(
        [{"role": "user", "content": "tea " + " ".join(map(str, range(300)))}] * 2, "s", 1
    )
    offered: list[dict[str, Any]] = [{"text": "Tea 1", "turns": [1]}, {"text": "tea: 1!", "turns": [2, 2]}]
    offered += [{"text": f"tea {number}", "turns": [1]} for number in range(2, MOST_FACTS + 5)]
    accepted, refused = found_facts({"facts": offered}, conversation)

    assert accepted[0] == ("Tea 1", [1, 2])
    assert (len(accepted), len(refused)) == (MOST_FACTS, 4)
    assert all("fewer messages" in refusal.reason for refusal in refused)


def test_the_first_decision_on_a_fact_counts_and_reasons_are_short() -> None:
    """A fact without a decision, or with one about another memory, is new."""
    near = [SimilarMemory("a", 1.0, "x"), SimilarMemory("b", 0.5, "y")]
    questions = [("x", near)] * 4
    decisions = [
        {"fact": 1, "decision": "same", "memory": 2, "reason": "r\n" * 500},
        {"fact": 1, "decision": "supersedes", "memory": 1, "reason": ""},
        {"fact": 2, "decision": "supersedes", "memory": 3, "reason": ""},
        {"fact": 3, "decision": "supersedes", "memory": -1, "reason": ""},
        {"fact": 9, "decision": "supersedes", "memory": 1, "reason": ""},
    ]
    first, *others = decisions_in({"decisions": decisions}, questions)

    assert others == [NEW] * 3
    assert first == FactDecision(FactOutcome.SAME, near[1], first.reason)
    assert len(first.reason) <= 200
    assert "\n" not in first.reason


def test_the_key_of_messages_depends_on_text_and_place() -> None:
    """Another session, project, user, type, number, name or text changes it; unread messages do not."""
    message = {"role": "user", "content": "tea"}

    def key(*, session: str = "s", first: int = 1, whose: tuple[Any, ...] = ("p", None, "fact"), **others: Any) -> str:
        return checked_conversation([{**message, **others}], session, first).key(*whose)

    others = [
        key(session="t"),
        key(first=2),
        key(whose=("q", None, "fact")),
        key(whose=("p", "u", "fact")),
        key(whose=("p", None, "note")),
        key(name="Ann"),
        key(content="coffee"),
    ]
    assert len({key(), *others}) == 8
    with_system = checked_conversation([message, {"role": "system", "content": "x"}], "s", 1)
    assert with_system.key("p", None, "fact") == key()


def test_the_simulated_model_takes_sentences_for_facts() -> None:
    """Questions and short sentences are none; prompts about other things are not read."""
    turns = [ANN, Turn(2, "Bob", "Nice! Where do you live now exactly? My brother works at Siemens. Ok.")]
    assert sim_facts(extraction_prompt(turns)) == {
        "facts": [
            {"text": "Ann: I moved to Munich, and I'm living near the Isar.", "turns": [1]},
            {"text": "Bob: My brother works at Siemens.", "turns": [2]},
        ]
    }
    assert sim_facts("Rewrite this query: <messages>\nnonsense\n</messages>") is None
    assert sim_decisions("no facts") is None


class Writer:
    """A writer of a collection without vectors."""

    async def vectors_of(self, items: list[Any]) -> None:
        """None: no vectors."""


async def test_a_failed_comparison_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller, and no search goes on behind the caller's back."""
    searching = set[str]()

    async def near(_collection: object, fact: NewMemory, *_: object, **__: object) -> list[Any]:
        searching.add(fact.memory_id)
        try:
            await asyncio.sleep(0)
            if fact.memory_id == "1":
                raise DatabaseUnreachableError("gone")
            await asyncio.sleep(60)
        finally:
            searching.remove(fact.memory_id)
        return []

    monkeypatch.setattr(messages, "near_memories", near)
    facts = [
        NewMemory(memory_id=str(number), project_id="p", interaction_type="fact", content="A cat", occurred_at=NOW)
        for number in range(10)
    ]
    parts: Any = dict.fromkeys(("conversation", "memory_of", "receipt", "llm", "collection", "place"))
    with pytest.raises(DatabaseUnreachableError):
        await Remembering(**parts, now=NOW, writer=Writer()).decisions(facts)  # type: ignore[arg-type]
    assert searching == set()
