"""Phrases, excluded words and prefixes, as the database answers them, in languages with spaces and without."""
# ruff: noqa: RUF001

from __future__ import annotations

from typing import Any
from unicodedata import normalize

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import Collection, Platform
from retrieval.domain.search.filters import Contains, Not
from retrieval.domain.words import usual_form

Connection = psycopg.AsyncConnection[Any]

ENGLISH = {
    "a": "The read timeout happened while connecting.",
    "b": "A timeout to read; interesting connections.",
    "c": "Redis read\ntimeouts are an interest of mine.",
    "d": "To be, or not to be: that is the question.",
    "e": "The well-known COVID-19 pandemic and Vitamin B12.",
}
UNSPACED = {
    "zh": "我们在北京的图书馆学习自然语言处理，然后回家吃饭。",
    "zh2": "图书和文学馆",
    "ja": "東京タワーは港区にある観光名所で、時々行きます。",
    "ko": "서울특별시청에서 친구를 만나서 한국어를 공부했습니다.",
    "th": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
    "mixed": "PostgreSQLの設定ファイルを変更する error コード 42",
    "rare": "𠮷野家で𩸽を食べる",
    "half": "ﾊﾝｶｸのｶﾀｶﾅとＡＢＣ",
    "apart": normalize("NFD", "깃발 が Café crème"),
    "joined": "the oﬃce ﬁle",
}


async def _fill(platform: Platform, texts: dict[str, str], **options: Any) -> Collection:
    collection = await platform.collection("docs", **options)
    await collection.add([{"_id": key, "text": text} for key, text in texts.items()])
    return collection


async def _matching_ids(collection: Collection, query: str) -> set[str]:
    return {hit.item_id for hit in await collection.search(query, legs=["lexical"])}


async def _containing(collection: Collection, text: str) -> set[str]:
    """The items that match a filter on the text, whatever their rank."""
    vector = [1.0] * 256
    return {hit.item_id for hit in await collection.search(vector=vector, where=Contains(text), legs=["dense"])}


@pytest.mark.parametrize(
    ("query", "item_ids"),
    [
        ('"read timeout"', {"a", "c"}),
        ('"reading timeouts"', {"a", "c"}),
        ('"timeout read"', set()),
        ('"timeout to read"', {"b"}),
        ('"redis" timeout', {"c"}),
        ("timeout -redis", {"a", "b"}),
        ('timeout -"read timeout"', {"b"}),
        ('question -"to be or not to be"', set()),
        ('question "not to be"', {"d"}),
        ('question -"be to not"', {"d"}),
        ('"covid-19 pandemic"', {"e"}),
        ("interesti*", {"b", "c"}),
        ("connecti*", {"a", "b"}),
        ("Conn*", {"a", "b"}),
        ("pande*", {"e"}),
        ("zebr*", set()),
        ("zebr* redis", {"c"}),
        ("timeout -nothing", {"a", "b", "c"}),
    ],
)
async def test_an_english_collection_answers_by_its_stems(platform: Platform, query: str, item_ids: set[str]) -> None:
    """Phrases hold in the order of their stems, exclusions remove, prefixes reach stems shorter than themselves."""
    assert await _matching_ids(await _fill(platform, ENGLISH), query) == item_ids


@pytest.mark.parametrize("query", ["kapı", "KAPI", "ısparta", "istanbul", '"kapı açıldı"', "ısp*", "İST*", '"ısı ile"'])
async def test_a_turkish_collection_reads_its_capitals_as_turkish_does(platform: Platform, query: str) -> None:
    """There, the two letters i have two capitals, which the locale of the database does not know."""
    collection = await _fill(
        platform, {"a": "KAPI AÇILDI. Isparta ve İstanbul, ISI ile", "b": "başka"}, language="turkish"
    )
    [hit] = await collection.search(query, legs=["lexical"], snippet=80)
    assert (hit.item_id, hit.snippet and bool(hit.snippet.highlights)) == ("a", True)


@pytest.mark.parametrize(
    ("query", "item_ids"),
    [
        ("图书馆", {"zh", "zh2"}),
        ('"图书馆"', {"zh"}),
        ('"书馆学"', {"zh"}),
        ('"馆图书"', set()),
        ("图书 -北京", {"zh2"}),
        ("京", {"zh", "ja"}),
        ("馆", {"zh", "zh2"}),
        ("饭", {"zh"}),
        ('"饭"', {"zh"}),
        ('"馆"', {"zh", "zh2"}),
        ("猫", set()),
        ("観光名所", {"ja"}),
        ("タワー", {"ja"}),
        ('"東京タワー"', {"ja"}),
        ('"タワー東京"', set()),
        ("々", {"ja"}),
        ("す", {"ja", "mixed"}),
        ("한국어", {"ko"}),
        ("시", {"ko"}),
        ('"특별시청"', {"ko"}),
        ("เมืองหลวง", {"th"}),
        ('"เมืองหลวง"', {"th"}),
        ("ไ", {"th"}),
        ("設定", {"mixed"}),
        ("errors", {"mixed"}),
        ('"error コード 42"', {"mixed"}),
        ('"コード error"', set()),
        ("𠮷野家", {"rare"}),
        ("𩸽", {"rare"}),
        ("カタカナ", {"half"}),
        ("ﾊﾝｶｸ", {"half"}),
        ("abc", {"half"}),
        ("깃발", {"apart"}),
        ("café", {"apart"}),
        (normalize("NFD", '"café crème"'), {"apart"}),
        (normalize("NFD", "error crème -café"), {"mixed"}),
        ('"office files"', {"joined"}),
    ],
)
async def test_scripts_without_spaces_are_searched_by_runs_and_single_characters(
    platform: Platform, query: str, item_ids: set[str]
) -> None:
    """A phrase is its characters in order, a character matches anywhere; width, plane and parts do not matter."""
    assert await _matching_ids(await _fill(platform, UNSPACED), query) == item_ids


@pytest.mark.parametrize(
    ("text", "item_ids"),
    [
        ("to be or not to be", {"d"}),
        ("NOT TO", {"d"}),
        ("o b", set()),
        ("the", {"a", "d", "e"}),
        ("read timeout", {"a", "c"}),
        ("!!!", set()),
        ("", set()),
    ],
)
async def test_words_that_the_language_leaves_out_are_compared_as_they_are_spelt(
    platform: Platform, text: str, item_ids: set[str]
) -> None:
    """Whole words match in order, in any case and with anything between them; a text without words matches nothing."""
    assert await _containing(await _fill(platform, ENGLISH), text) == item_ids


async def test_dropped_words_with_accents_are_compared_however_these_are_written(platform: Platform) -> None:
    """As one character or two, as in files of macOS."""
    texts = {form: normalize(form, "où à la") for form in ("NFC", "NFD")}
    collection = await _fill(platform, {**texts, "other": "ou a la"}, language="french")
    assert await _containing(collection, normalize("NFD", "à la")) == set(texts)


async def test_a_phrase_does_not_run_from_the_title_into_the_body(platform: Platform) -> None:
    """Title and body are two texts; either may hold it."""
    collection = await platform.collection("docs")
    await collection.add(
        [
            {"_id": "both", "title": "read", "text": "timeout"},
            {"_id": "title", "title": "a read timeout", "text": ""},
            {"_id": "body", "title": "", "text": "a read timeout"},
        ]
    )
    assert await _matching_ids(collection, '"read timeout"') == {"title", "body"}


async def test_a_phrase_is_found_far_down_a_long_text_and_across_lines(platform: Platform) -> None:
    """Beyond the places that a tsvector counts, wherever the text is cut for reading."""
    filler = " ".join(f"filler{number} the needle" for number in range(6000))
    texts = {f"at {cut}": f"{filler[:cut]} silver\nneedle {filler[cut:]}" for cut in (4995, 5005, 100_000)}
    collection = await _fill(platform, texts | {"other": filler})
    assert await _matching_ids(collection, '"silver needle"') == set(texts)


async def test_phrases_and_exclusions_hold_for_the_dense_leg_too(platform: Platform) -> None:
    """They are conditions of the whole search, and have equivalents as filters."""
    collection = await _fill(platform, ENGLISH)
    hits = await collection.search('timeout -redis "read timeout"')
    assert [hit.item_id for hit in hits] == ["a"]
    hits = await collection.search("timeout", where=Not(Contains("timeout")))
    assert {hit.item_id for hit in hits} == {"d", "e"}


async def test_plain_queries_mean_what_they_spell(platform: Platform) -> None:
    """Without syntax a minus excludes nothing and quotes demand nothing."""
    collection = await _fill(platform, ENGLISH)
    hits = await collection.search('"timeout read" -redis', legs=["lexical"], syntax=False)
    assert {hit.item_id for hit in hits} == {"a", "b", "c"}


async def test_a_prefix_weighs_as_one_term(platform: Platform, connection: Connection) -> None:
    """Its terms share one idf, that of a term as frequent as all of them; a whole word keeps its own idf."""
    collection = await _fill(platform, {str(n): f"alpha{n} common" for n in range(8)} | {"x": "alphorn", "y": "beta"})
    number = (await collection.refresh()).collection_id
    cursor = await connection.execute(
        "SELECT term.part, count(*), min(term.frequency), count(DISTINCT weight.number) "
        "FROM query_terms(%s, %s, %s) AS known, "
        "unnest(known.parts, known.lexemes, known.frequencies) AS term (part, lexeme, frequency), "
        "LATERAL substring(known.weights::text, '[{,]' || term.lexeme || ':([^,}]+)') AS weight (number) "
        "GROUP BY term.part ORDER BY 2",
        (number, "beta alphorn", ["alph"]),
    )
    assert [row[1:] for row in await cursor.fetchall()] == [(1, 1, 1), (1, 1, 1), (8, 8, 1)]
    filtered = await collection.search("alph*", legs=["lexical"], where={"kind": ""})
    assert [hit.item_id for hit in filtered] == [
        hit.item_id for hit in await collection.search("alph*", legs=["lexical"])
    ]
    assert len(filtered) == 9


async def test_a_prefix_takes_the_most_frequent_of_many_terms(platform: Platform, connection: Connection) -> None:
    """A short prefix of a large vocabulary stands for its 64 most frequent terms."""
    words = [f"te{number:03}" for number in range(200)]
    collection = await _fill(platform, {"all": " ".join(words), "some": " ".join(words[100:164])}, language="simple")
    number = (await collection.refresh()).collection_id
    cursor = await connection.execute(
        "SELECT known.term FROM query_terms(%s, '', '{te}') AS asked "
        "JOIN term_statistics AS known ON known.lexeme = ANY (asked.lexemes) WHERE known.collection_id = %s ORDER BY 1",
        (number, number),
    )
    assert [row[0] for row in await cursor.fetchall()] == words[100:164]


async def test_full_width_signs_change_no_other_character(platform: Platform) -> None:
    """In a query and in an item, which may have them apart: ² stays, and is no 2."""
    texts = {
        "flat": "公寓面积 120m²，三室一厅",
        "house": "plot of 500 m² （garden）",
        "plain": "plot of 500 m² (garden)",
    }
    collection = await _fill(platform, texts)
    assert await _matching_ids(collection, "120m²") == {"flat"}
    assert await _matching_ids(collection, '"500 m²"') == {"house", "plain"}
    assert await _matching_ids(collection, "garden （500 m²）") == {"house", "plain"}
    assert await _matching_ids(collection, 'garden -"500 m²"') == set()


@given(st.lists(st.text(st.sampled_from("aé²½ﬁ（）ＡﾊﾞﾟｶカハがﾞㅎＨ가ᄀ\u0301\u3099 ")), min_size=1, max_size=40))
async def test_texts_have_one_usual_form_in_python_and_in_the_database(
    connection: Connection, texts: list[str]
) -> None:
    """Snippets and corrections of spelling depend on it."""
    cursor = await connection.execute(
        "SELECT usual_form(one) FROM unnest(%s::text[]) WITH ORDINALITY AS given (one, place) ORDER BY place",
        (texts,),
    )
    assert [row[0] or "" for row in await cursor.fetchall()] == list(map(usual_form, texts))
