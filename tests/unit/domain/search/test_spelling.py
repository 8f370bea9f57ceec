"""Misspelt words: the compared words, the candidates, and the choice."""

from __future__ import annotations

import pytest

from retrieval.domain.search.spelling import (
    MAX_CHECKED,
    NearWord,
    Word,
    checkable,
    completions_of,
    edits_to,
    likeliest,
    note_of,
    one_edit_away,
    respelt,
    split_typed,
)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("bondary layr", ["bondary", "layr"]),
        ("Bondary LAYR of HDFS in iPhone", ["bondary"]),
        ("BONDARY LAYR", ["bondary", "layr"]),
        ('"exact frase" timout -exclded begn* full', ["timout", "full"]),
        ("T-1234 user@mail.example time-out foo_bar abc1 node.js/path it's", []),
        ("end. comma, (brackets)", ["comma", "brackets"]),
        ("übrgens straße", ["übrgens", "straße"]),
        ("परवरदिगार \uff57\uff4f\uff52\uff44", ["परवरदिगार", "word"]),
        ("", []),
        ("-onlyexcluded", []),
    ],
)
def test_words_that_could_be_misspelt_are_compared_and_names_are_not(query: str, words: list[str]) -> None:
    """Words of phrases are required unchanged; exclusions and prefixes are too."""
    assert [word.spelling for word in checkable(query, syntax=True)] == words


def test_a_run_of_marks_is_read_in_one_go() -> None:
    """A pattern that divides it in every way would not end here."""
    assert checkable("word" + "\u0301\u0323" * 500 + "1", syntax=True) == []


def test_without_syntax_every_word_counts() -> None:
    """Quotes and stars are text then."""
    words = checkable('"exact frase" begn*', syntax=False)
    assert [word.spelling for word in words] == ["exact", "frase", "begn"]


def test_of_a_pasted_text_the_first_words_are_compared() -> None:
    """The cost of a query is limited."""
    assert len(checkable("words " * 1000, syntax=True)) == MAX_CHECKED


@pytest.mark.parametrize("word", ["layer", "lay", "lary", "lair", "clayr", "ayr"])
def test_each_kind_of_edit_is_made(word: str) -> None:
    """A letter added, left out, exchanged with its neighbour, replaced; at the beginning too."""
    assert word in one_edit_away("layr", accents=False)


def test_an_accent_that_was_left_out_is_one_edit() -> None:
    """In languages that have them; a word of another script is compared in its own letters."""
    assert "café" in one_edit_away("cafe", accents=True)
    assert "café" not in one_edit_away("cafe", accents=False)
    assert "слово" in one_edit_away("слво", accents=False)
    assert len(one_edit_away("a" * 32, accents=True)) < 6000


@pytest.mark.parametrize(
    ("word", "other", "edits"),
    [
        ("layr", "layer", 1),
        ("transtion", "transition", 1),
        ("abcd", "abdc", 1),
        ("hypresonci", "hypersonic", 2),
        ("same", "same", 0),
        ("kitten", "sitting", None),
        ("short", "shortest", None),
        ("hypresonci", "hyperson", 1),
        ("hyper", "hyperson", None),
        ("transportation", "transit", None),
    ],
)
def test_edits_are_counted_up_to_the_most(word: str, other: str, edits: int | None) -> None:
    """Neighbours exchanged are one edit."""
    assert edits_to(word, other, 2) == edits


def test_the_frequent_word_wins_unless_it_begins_otherwise() -> None:
    """A first letter is seldom wrong."""
    assert likeliest("layr", [NearWord("layer", 1, 50), NearWord("lair", 1, 2)]) == NearWord("layer", 1, 50)
    assert likeliest("flwo", [NearWord("flow", 1, 10), NearWord("alwo", 1, 20)]) == NearWord("flow", 1, 10)
    assert likeliest("flwo", [NearWord("flow", 2, 1000), NearWord("flwoy", 1, 1)]) == NearWord("flwoy", 1, 1)
    assert likeliest("flwo", []) is None


def test_a_query_keeps_all_but_the_corrected_words() -> None:
    """Each word is corrected at its place, at each occurrence."""
    query = 'The layr, "of air" -layr LAYR'
    words = [Word(4, 8, "layr"), Word(25, 29, "layr")]
    assert respelt(query, words, {"layr": "layer"}) == 'The layer, "of air" -layr layer'
    assert note_of({"layr": "layer"}).endswith("'layr' as 'layer'")


def test_a_word_whose_small_letters_are_longer_is_replaced_whole() -> None:
    """İ in small letters is two characters."""
    query = "İstanbull neredee"
    instead = {"i̇stanbull": "istanbul", "neredee": "nerede"}
    assert respelt(query, checkable(query, syntax=True), instead) == "istanbul nerede"


def test_a_text_goes_on_with_what_follows_its_last_word_then_with_words_of_titles() -> None:
    """How many items hold a word decides last: most hold the usual words of every text."""
    items = [
        ("1", "Pumpkin soup", "Serve so hot. Pumpkin soup."),
        ("2", "Spicy salsa", "Serve so cold."),
        ("3", "", "Serve so so."),
    ]
    assert completions_of(split_typed("pumpkin s"), items, 9).queries == (
        "pumpkin soup",
        "pumpkin salsa",
        "pumpkin Spicy",
        "pumpkin so",
        "pumpkin Serve",
    )
    assert completions_of(split_typed("s"), items, 3).queries == ("soup", "salsa", "Spicy")
    assert completions_of(split_typed("हिन्दी वि"), [("4", "", "हिन्दी विज्ञान, गावि")], 9).queries == ("हिन्दी विज्ञान",)


@pytest.mark.parametrize(
    ("text", "before", "beginning"),
    [
        ("a don't-", "a ", "don't-"),
        ("a 'ti", "a '", "ti"),
        ("a ", "a ", ""),
        ("", "", ""),
        ("a" * 100_000 + "*", "a" * 100_000 + "*", ""),
    ],
    ids=["signs within", "sign before", "space", "nothing", "long"],
)
def test_the_last_word_is_the_one_to_complete(text: str, before: str, beginning: str) -> None:
    """A word has signs within it and behind it, and is found from behind, whatever the length of the text."""
    assert split_typed(text) == (before, beginning)
