"""The questions that get other wordings."""

from __future__ import annotations

import pytest

from retrieval.apps.recall import deep_triggers


@pytest.mark.parametrize(
    ("query", "trigger"),
    [
        ("Who do I know at Acme?", "who"),
        ("what colour is the car", "what"),
        ("when is the launch", "when"),
        ("tell me where it was", "where"),
        ("why did it fail", "why"),
        ("how to reset", "how"),
        ("who's the owner", "who's"),
        ("What’s the plan?", "what's"),
        ("whats the plan", "whats"),
        ("where're my keys", "where're"),
        ("whom did I meet", "whom"),
        ("WHO IS BOB", "who"),
        ("Who's Bob", "who's"),
        ("Who Is Bob?", "who"),
        ("What Happened Last Week", "what"),
        ("What Happened Last Week", "last week"),
        ("How To Reset The Router", "how"),
        ("- Where Did Ann Go", "where"),
        ("Acme. Who Runs It", "who"),
        ("Did It Happen Last Week?", "last week"),
        ("Who's Ann", "who's"),
        ("Yesterday's Meeting", "yesterday's"),
        ("Yesterday", "yesterday"),
        ("Emails About The Budget", "about"),
        ("Related To Payment", "related to"),
        ("Similar Incidents", "similar"),
        ("emails From Ann Last Week", "last week"),
        ("Acme. Who runs it?", "who"),
        ("tickets related to billing", "related to"),
        ("it relates  to billing", "relates to"),
        ("the relationship between Ann and Bob", "relationship between"),
        ("notes about Acme", "about"),
        ("mail regarding the lease", "regarding"),
        ("mail with regard to the lease", "with regard to"),
        ("meetings involving Ann", "involving"),
        ("the people involved", "involved"),
        ("yesterday", "yesterday"),
        ("yesterday's meeting", "yesterday's"),
        ("Yesterday’s meeting", "yesterday's"),
        ("last week", "last week"),
        ("last week's minutes", "last week's"),
        ("bought last\nmonth", "last month"),
        ("recently bought", "recently"),
        ("recent purchases", "recent"),
        ("have we met before", "before"),
        ("similar cases", "similar"),
        ("similar to this", "similar"),
        ("similarities of the two", "similarities"),
        ("something like chess", "like"),
        ("foods that I like", "like"),
        ("connections of Ann", "connections"),
        ("the connection of Ann", "connection"),
        ("people connected to Ann", "connected to"),
        ("\uff57\uff48\uff4f is it", "who"),
    ],
)
def test_the_stated_words_and_their_natural_forms_trigger(query: str, trigger: str) -> None:
    """Question words, relationships, time and abstract concepts, in any case and with any apostrophe."""
    assert trigger in deep_triggers(query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "Acme",
        "Watson",
        "Howard",
        "Whitney",
        "Don Whatley",
        "Aboutaleb",
        "Doctor Who",
        "Dr. Who",
        "Like Minds",
        "Why Not Ltd",
        "Why Not Ltd.",
        "Guess Who",
        "WHO Guidelines",
        "The Song Yesterday",
        "concerts of The Who",
        "WHO guidelines",
        "no evidence whatsoever",
        "somewhat slow",
        "whenever possible",
        "however small",
        "showcase",
        "know-how transfer",
        "a what-if analysis",
        "likely dates",
        "unlike apples",
        "like-minded people",
        "I'd like the invoice",
        "I would like the invoice",
        "beforehand",
        "a simile",
        "connectionless protocol",
        "recency",
        "the last name of Ann",
        "last",
        "mail to who@acme.example",
        "open what.txt",
        "https://acme.example/about/team",
        'the song "What a day"',
        "the song “Yesterday”",
        "the song Yesterday by heart",
    ],
)
def test_names_and_other_words_do_not_trigger(query: str) -> None:
    """Words that contain a trigger, names, quoted text and polite phrases do not."""
    assert deep_triggers(query) == ()


def test_triggers_come_in_the_order_of_the_question() -> None:
    """Each is in lower case."""
    assert deep_triggers("What happened last week, and who was involved?") == ("what", "last week", "who", "involved")


@pytest.mark.parametrize("query", ["- Who is it", "* Who is it", '"Who is Ann?"'])
def test_a_question_in_a_list_or_in_quotation_marks_as_a_whole_is_one(query: str) -> None:
    """The marks are not its own."""
    assert deep_triggers(query) == ("who",)
