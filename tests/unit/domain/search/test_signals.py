"""The signals: each a number from 0 to 1, by the formula that it says."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.items.memory import check_entity
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import (
    SIGNALS,
    STOP_WORDS,
    AttributeValue,
    BaseRelevance,
    EntityOverlap,
    Facts,
    KeywordOverlap,
    KnownHours,
    Popularity,
    Priority,
    Question,
    Rating,
    Recency,
    ResolutionTime,
    Signal,
    TagMatch,
    VectorSimilarity,
    signals_as_dict,
    signals_from_dict,
    tokens,
)
from retrieval.domain.words import apart, lowered

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ASKED = Question(now=NOW)


@pytest.mark.parametrize(("days", "value"), [(0, 1.0), (14, math.exp(-1)), (7, math.exp(-0.5)), (-3, 1.0)])
def test_recency_decays_by_e_in_its_days(days: float, value: float) -> None:
    """A future time counts as now."""
    facts = Facts(happened_at=NOW - timedelta(days=days))
    assert Recency(weight=1).value(facts, ASKED) == pytest.approx(value)


def test_signals_without_anything_to_compare_leave_their_weights_to_the_others() -> None:
    """The weights grow in proportion, so that the sum stays; with all inputs, or none, they stay the same."""
    signals = (BaseRelevance(weight=0.3), Recency(weight=0.1), KeywordOverlap(weight=0.2), EntityOverlap(weight=0.4))
    profile = Profile(fusion=Fusion(kind=FusionKind.UNION), signals=signals)
    without = profile.taking_part(ASKED).weights
    assert without == pytest.approx({"base_relevance": 0.75, "recency": 0.25, "keyword": 0.0, "entity": 0.0})
    words = profile.taking_part(Question(now=NOW, words="protein")).weights
    assert words == pytest.approx({"base_relevance": 0.5, "recency": 1 / 6, "keyword": 1 / 3, "entity": 0.0})
    assert profile.taking_part(Question(now=NOW, words="protein", entities=frozenset({("q", "1")}))) is profile
    alone = Profile(fusion=Fusion(kind=FusionKind.UNION), signals=(KeywordOverlap(weight=0.2),))
    assert alone.taking_part(ASKED) is alone


def test_an_item_without_a_time_is_not_recent() -> None:
    """Its recency is unknown."""
    assert Recency(weight=1).value(Facts(), ASKED) == 0


@pytest.mark.parametrize(("accesses", "value"), [(0, 0.0), (9, 1 / math.log10(101)), (100, 1.0), (10_000, 1.0)])
def test_popularity_is_logarithmic_and_full_at_a_hundred(accesses: int, value: float) -> None:
    """log10(accesses + 1) / log10(101), at most 1."""
    assert Popularity(weight=1).value(Facts(accesses=accesses), ASKED) == pytest.approx(value)


@pytest.mark.parametrize(
    ("words", "body", "value"),
    [
        ("protein folding mechanisms", "Study of protein folding in cells", 2 / 3),
        ("Protein, PROTEIN protein!", "a protein", 1.0),
        ("fold", "folding", 0.0),
        ("the of and", "the of and", 0.0),
        ("", "anything", 0.0),
        (" ".join(f"word{number}" for number in range(40)), "Word7 word39, word40; word7 and word", 2 / 40),
        ("Größe c++ 3.5", "die GRÖSSE von c und 3", 3 / 4),
        ("Größe", "Gro\u0308ße", 1.0),
        ("\uff49\uff30\uff48\uff4f\uff4e\uff45", "an iPhone", 1.0),
        ("日本語の原則", "これは日本語です", 2 / 5),
        ("猫", "私の猫です", 1.0),
        ("iPhone日本", "日本のiPhoneと", 1.0),
        ("ข้อความ", "ไม่มี", 0.0),
        ("दिन नदी", "नदी नद", 1 / 2),
        ("日本語を" * 15, "日本語", 2 / 4),
        (" ".join(f"word{number}" for number in range(39)) + " 猫", "word7 私の猫です", 2 / 40),
    ],
)
def test_keyword_overlap_is_the_share_of_the_words_that_stand_in_the_text(words: str, body: str, value: float) -> None:
    """Whole words in any case, each once, without the stop words."""
    assert KeywordOverlap(weight=1).value(Facts(body=body), Question(now=NOW, words=words)) == pytest.approx(value)


@given(st.text(max_size=40), st.text(max_size=80))
def test_keyword_overlap_is_that_of_the_two_sets_of_words(words: str, text: str) -> None:
    """Looking for the words gives what taking the text apart would; a single character is found within its run."""
    query_words = tokens(words)
    item_words = tokens(f"\n{text}") | set(apart(lowered(text))[1])
    share = KeywordOverlap(weight=1).value(Facts(body=text), Question(now=NOW, words=words))
    assert share == (len(query_words & item_words) / len(query_words) if query_words else 0.0)
    assert not query_words & STOP_WORDS


def test_entity_overlap_is_the_share_of_the_questions_entities() -> None:
    """An id counts only within its type."""
    question = Question(now=NOW, entities=frozenset({("questions", "q1"), ("questions", "q2"), ("hypotheses", "h1")}))
    facts = Facts(entities=frozenset({("questions", "q1"), ("hypotheses", "h1"), ("papers", "q2")}))
    assert EntityOverlap(weight=1).value(facts, question) == pytest.approx(2 / 3)
    assert EntityOverlap(weight=1).value(facts, ASKED) == 0


@pytest.mark.parametrize(
    ("stored", "value"),
    [("Critical", 1.0), (" high ", 0.8), ("MEDIUM", 0.5), ("Low", 0.3), ("Whatever", 0.5), (7, 0.5)],
)
def test_a_priority_has_its_worth_and_an_unknown_one_the_middle(stored: object, value: float) -> None:
    """Case and spaces around it do not count."""
    assert Priority(weight=1).value(Facts(attributes={"priority": stored}), ASKED) == value


@pytest.mark.parametrize(
    ("hours", "value"), [(0, 1.0), (25, 0.75), (100, 0.0), (400, 0.0), (-5, 1.0), (None, 0.0), ("9", 0.0), (True, 0.0)]
)
def test_a_resolution_is_worth_the_more_the_sooner_it_came(hours: object, value: float) -> None:
    """1 - hours / 100, within 0 and 1; unknown is 0."""
    facts = Facts(attributes={"resolution_time_hours": hours})
    assert ResolutionTime(weight=1).value(facts, ASKED) == pytest.approx(value)


def test_hours_that_are_not_known_may_count_as_some() -> None:
    """This applies to missing hours, and to a resolution in the future; not to known hours."""
    signal = ResolutionTime(weight=1, unknown_hours=24.0)
    still_to_come = {"resolution_time_hours": 10, "resolved_at": "2026-04-01"}
    for attributes, value in (({}, 0.76), (still_to_come, 0.76), ({"resolution_time_hours": 90}, 0.1)):
        assert signal.value(Facts(attributes=attributes), ASKED) == pytest.approx(value)
    with pytest.raises(InvalidProfileError, match="unknown_hours"):
        ResolutionTime(weight=1, unknown_hours=-1.0)


@pytest.mark.parametrize(("resolved", "value"), [("2026-02-01", 0.9), (" 2026-04-01T00:00:00Z ", 0.0), ("x", 0.9)])
def test_a_resolution_that_was_still_to_come_is_not_known(resolved: str, value: float) -> None:
    """A question as of a past moment uses only facts known then."""
    facts = Facts(attributes={"resolution_time_hours": 10, "resolved_at": resolved})
    assert ResolutionTime(weight=1).value(facts, ASKED) == pytest.approx(value)


@pytest.mark.parametrize(
    ("attributes", "always", "if_resolved"),
    [
        ({"resolved_at": "2026-02-01"}, 0.9, 0.9),
        ({"resolved_at": "2026-04-01"}, 0.9, 0.0),
        ({"resolved_at": "x"}, 0.9, 0.9),
        ({"resolution_time_hours": 90}, 0.1, 0.0),
        ({"resolution_time_hours": 1e300}, 0.0, 0.0),
    ],
)
def test_hours_are_known_always_or_only_after_the_resolution(
    attributes: dict[str, object], always: float, if_resolved: float
) -> None:
    """A resolution without a readable time is dated by the item's time and its hours, if it has a time."""
    facts = Facts(attributes={"resolution_time_hours": 10, **attributes}, happened_at=NOW - timedelta(hours=20))
    assert ResolutionTime(weight=1, known=KnownHours.ALWAYS).value(facts, ASKED) == pytest.approx(always)
    signal = ResolutionTime(weight=1, known=KnownHours.IF_RESOLVED)
    assert signal.value(facts, ASKED) == pytest.approx(if_resolved)
    if "2026" not in str(attributes):
        assert signal.value(replace(facts, happened_at=None), ASKED) == 0.0
    assert signals_from_dict(signals_as_dict([signal])) == (signal,)
    with pytest.raises(InvalidProfileError, match="rule of known hours"):
        ResolutionTime(weight=1, known="later")  # type: ignore[arg-type]


@pytest.mark.parametrize(("cosine", "value"), [(0.4, 0.4), (-0.2, 0.0), (1.0000001, 1.0), (None, 0.0)])
def test_vector_similarity_is_the_cosine_above_zero(cosine: float | None, value: float) -> None:
    """Opposite and missing vectors count as 0."""
    assert VectorSimilarity(weight=1).value(Facts(cosine=cosine), ASKED) == value


@pytest.mark.parametrize(("stored", "value"), [(0.3, 0.3), (4.0, 1.0), (-1.0, 0.0)])
def test_base_relevance_stays_within_its_range(stored: float, value: float) -> None:
    """Any value of the application is clipped."""
    assert BaseRelevance(weight=1).value(Facts(base_relevance=stored), ASKED) == value


@pytest.mark.parametrize(
    ("tags", "query_tags", "added"),
    [({"a", "b", "c"}, {"a", "c", "d"}, 0.2), ({"A"}, {"a"}, 0.0), (set(), {"a"}, 0.0), ({"a"}, set(), 0.0)],
)
def test_each_matching_tag_adds_a_tenth(tags: set[str], query_tags: set[str], added: float) -> None:
    """Tags are compared as stored, with their case."""
    signal = TagMatch()
    value = signal.value(Facts(tags=frozenset(tags)), Question(now=NOW, tags=frozenset(query_tags)))
    assert signal.weight * value == added


@given(st.integers(0, 12), st.integers(1, 12), st.floats(0, 5))
def test_matching_tags_count_alike_up_to_the_most(matching: int, most: int, weight: float) -> None:
    """Each adds weight / most."""
    tags = frozenset(str(number) for number in range(matching))
    signal = TagMatch(weight=weight, most=most)
    added = signal.weight * signal.value(Facts(tags=tags | {"other"}), Question(now=NOW, tags=tags))
    assert added == pytest.approx(min(matching, most) * weight / most)


@pytest.mark.parametrize(("good", "uses", "value"), [(0, 0, 0.5), (1, 1, 2 / 3), (0, 1, 1 / 3), (3, 4, 4 / 6)])
def test_a_rating_is_the_rate_of_good_verdicts_with_one_of_each_added(good: int, uses: int, value: float) -> None:
    """(good + 1) / (verdicts + 2): the middle without any."""
    assert Rating(weight=1).value(Facts(uses=uses, raw_successes=good), ASKED) == pytest.approx(value)


@pytest.mark.parametrize(
    ("stored", "value"),
    [(0.7, 0.7), (1, 1.0), (3.5, 1.0), (-2, 0.0), (math.inf, 1.0)]
    + [(none, 0.5) for none in (None, True, "0.9", [0.9], math.nan)],
)  # fmt: skip
def test_an_attribute_value_is_its_number_between_0_and_1(stored: object, value: float) -> None:
    """A missing value, or one that is not a number, counts as the middle."""
    facts = Facts(attributes={"concreteness": stored})
    assert AttributeValue(weight=1).value(facts, ASKED) == value
    assert AttributeValue(weight=1, attribute="other", missing=0.2).value(facts, ASKED) == 0.2


def test_a_profile_may_weigh_several_attributes() -> None:
    """Each is named after its attribute, with any characters; a plain number is a weight there too."""
    signals = (AttributeValue(weight=0.2), AttributeValue(weight=0.1, attribute="a:b", missing=0))
    profile = Profile(legs={"recent": 1}, fusion=Fusion(kind=FusionKind.UNION), signals=signals)
    assert profile.weights == {"attribute:concreteness": 0.2, "attribute:a:b": 0.1}
    assert profile.weights_of(["lexical:1", "attribute:a:b"]) == {"lexical:1": 0.0, "attribute:a:b": 0.1}
    assert Profile.from_dict(profile.as_dict()) == profile
    assert signals_from_dict({"attribute:wit": 0.3}) == (AttributeValue(weight=0.3, attribute="wit"),)


FACTS = st.builds(
    Facts,
    title=st.text(max_size=20),
    body=st.text(max_size=40),
    attributes=st.dictionaries(
        st.sampled_from(["priority", "resolution_time_hours", "resolved_at", "concreteness"]),
        st.none() | st.booleans() | st.floats() | st.text(max_size=12) | st.lists(st.integers(), max_size=2),
    ),
    happened_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    cosine=st.none() | st.floats(-1.01, 1.01),
    base_relevance=st.floats(-2, 2),
    accesses=st.integers(-3, 10**12),
    entities=st.frozensets(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"))),
    tags=st.frozensets(st.sampled_from("abcd")),
    uses=st.integers(10**6, 10**12),
    raw_successes=st.integers(0, 10**6),
)


@pytest.mark.parametrize("kind", SIGNALS.values(), ids=list(SIGNALS))
@given(facts=FACTS, words=st.text(max_size=20))
def test_every_signal_is_a_number_from_0_to_1_and_survives_serialization(
    kind: type[Signal], facts: Facts, words: str
) -> None:
    """This holds for any candidate, and for every signal in the catalogue, including new ones."""
    question = Question(now=NOW, words=words, entities=frozenset({("a", "x"), ("b", "y")}), tags=frozenset("abx"))
    signal = kind(weight=1)
    assert 0 <= signal.value(facts, question) <= 1
    assert signal.value(facts, question) == signal.value(facts, question)


def test_stored_signals_come_back_equal() -> None:
    """With all their numbers; a bare number is a weight."""
    signals = (Recency(weight=0.25, decay_days=7), Priority(weight=0.5, values={"Urgent": 1.0}), Popularity(weight=0))
    assert signals_from_dict(signals_as_dict(signals)) == signals
    assert signals_from_dict({"recency": 0.25}) == (Recency(weight=0.25),)
    listed = Profile(fusion=Fusion(kind=FusionKind.UNION), signals=[Recency(weight=1)])  # type: ignore[arg-type]
    assert Profile.from_dict(listed.as_dict()) == listed
    assert set(SIGNALS) >= {signal.name for signal in signals}


@pytest.mark.parametrize(
    "stored",
    [
        [], {"recency": {"weight": -1}}, {"recency": {"weight": math.nan}}, {"recency": {}}, {"recency": True},
        {"freshness": 1}, {"recency": {"weight": 1, "decay_days": 0}}, {"recency": {"weight": 1, "other": 1}},
        {"priority": {"weight": 1, "values": {"High": 2}}}, {"priority": {"weight": 1, "values": 3}},
        {"resolution_time": {"weight": 1, "normalization_hours": math.inf}}, {"attribute:\ud800": 1},
        {"priority": {"weight": 1, "values": {None: 1}}}, {"priority": {"weight": 1, "attribute": None}},
        {"resolution_time": {"weight": 1, "attribute": []}},
        {"resolution_time": {"weight": 1, "resolved_attribute": "\ud800"}},
    ],
)  # fmt: skip
def test_an_invalid_signal_is_refused(stored: object) -> None:
    """An unknown name, a number out of its range, or none."""
    with pytest.raises(InvalidProfileError):
        signals_from_dict(stored)


@pytest.mark.parametrize("name", ["a\0", "\ud800", None])
def test_a_priority_with_a_name_that_cannot_be_stored_is_named(name: object) -> None:
    """The mapping itself is not the fault."""
    values: Any = {"High": 0.8, name: 0.5}
    with pytest.raises(InvalidProfileError, match=r"has a value for .*; names are texts"):
        Priority(weight=1, values=values)


@pytest.mark.parametrize(
    "entity", [("", "q"), ("a:b", "q"), ("a", ""), ("a", 1), ("a", "x\x00"), ("a" * 600, "q"), ("a", "\ud800")]
)
def test_an_invalid_entity_is_refused(entity: tuple[object, object]) -> None:
    """A type without colon and an id, both texts."""
    with pytest.raises(InvalidRequestError):
        check_entity(entity)
