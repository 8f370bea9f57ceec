"""Finding in spite of typing errors, and the optional parts of a search."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from retrieval import Collection, Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.errors import InvalidRequestError, RetrievalError, UnknownFieldError

PAPERS: list[dict[str, Any]] = [
    {"id": "1", "title": "Boundary layers", "text": "boundary layer transition on a wing", "area": "aero"},
    {
        "id": "2",
        "title": "Heat",
        "text": "hypersonic heat transfer in a laminar flow",
        "area": "aero",
        "tags": ["a", "b"],
    },
    {"id": "3", "title": "Soup", "text": "soup with potatoes and onions", "area": "food", "tags": ["b"]},
    {"id": "4", "title": "Engines", "text": "noise of jet engines, measured in hypersonic flow", "area": "aero"},
]


async def fill(platform: Platform, name: str = "papers", **settings: Any) -> Collection:
    """A collection of the papers."""
    papers = await platform.collection(name, **settings)
    await papers.add(PAPERS)
    return papers


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of the statements of each round trip."""
    read_each, round_trips = Database.read_each, list[list[str]]()

    async def noted(self: Database, tenant_id: int | None, each: Sequence[Compiled], *more: Any) -> list[Any]:
        round_trips.append([statement.text for statement in each])
        return await read_each(self, tenant_id, each, *more)

    monkeypatch.setattr(Database, "read_each", noted)
    return round_trips


async def test_a_plain_search_makes_one_round_trip_of_one_statement(platform: Platform, asked: list[list[str]]) -> None:
    """Options that are not requested cost nothing."""
    papers = await fill(platform)
    asked.clear()
    assert await papers.search("boundary layer", legs=["lexical"], limit=3)
    assert [len(texts) for texts in asked] == [1]


@pytest.mark.parametrize(("limit", "where"), [(100, None), (10, {"kind": "road"})])
async def test_a_page_by_words_has_the_items_that_hold_only_the_more_frequent_word(
    platform: Platform, limit: int, where: dict[str, Any] | None
) -> None:
    """The index preselects by the rarest words; the more items are to be found, the more words count as rare.

    More are found for a filter.
    """
    roads = await platform.collection("roads")
    long = [{"id": f"n{n}", "text": f"north {'street ' * 30}"} for n in range(300)]
    short = [{"id": f"s{n:03}", "text": "south"} for n in range(301)]
    await roads.add([{**road, "kind": "road"} for road in [*long, *short]])
    await roads.add([{"id": f"e{n}", "text": "east", "kind": "road"} for n in range(5000 if where else 0)])
    found = await roads.search("north south", legs=["lexical"], limit=limit, where=where)
    assert [hit.id for hit in found] == [f"s{n:03}" for n in range(limit)]


@pytest.mark.parametrize(
    ("query", "item_id", "replacement"),
    [
        ("bondary layr transtion", "1", "'bondary' as 'boundary', 'layr' as 'layer', 'transtion' as 'transition'"),
        ("ptatoes", "3", "'ptatoes' as 'potatoes'"),
        ("otatoes", "3", "'otatoes' as 'potatoes'"),
        ("hypresonci heat", "2", "'hypresonci' as 'hypersonic'"),
        ("potat", "3", "'potat' as 'potat*'"),
        ("Bondary -heat", "1", "'bondary' as 'boundary'"),
    ],
)
async def test_unknown_words_are_taken_for_the_known_ones_near_to_them(
    platform: Platform, query: str, item_id: str, replacement: str
) -> None:
    """They differ by one or two letters, or begin a known word; the notes list the replacements."""
    papers = await fill(platform)
    assert not await papers.search(query.split(maxsplit=1)[0], legs=["lexical"])
    result = await papers.search(query, legs=["lexical"], typos=True)
    assert result[0].item_id == item_id
    assert result.notes[0] == f"no item holds these words; they were taken for others: {replacement}"


@pytest.mark.parametrize(
    "query", ["boundary layers", "the wings", "zzyzxq", "wng", '"bondary layer" wing', "HDFX heat"]
)
async def test_other_queries_stay_as_they_are(platform: Platform, query: str) -> None:
    """Known words in any form, words that nothing is near to, short ones, phrases, names."""
    papers = await fill(platform)
    notes = (await papers.search(query, legs=["lexical"], typos=True)).notes
    assert not [note for note in notes if "taken for" in note]


@pytest.mark.parametrize(
    "query", ["potat?", "(potat)", "potat, soup", f"potat {' '.join(f'-un{n}x' for n in range(32))}"]
)
async def test_a_word_that_begins_a_known_one_may_stand_beside_any_signs(platform: Platform, query: str) -> None:
    """It adds no sign to the query: neither a star beside a comma, nor one more than a query may have."""
    papers = await fill(platform)
    await papers.add([{"id": "x", "text": "un3x potatoes"}])
    hits = [hit.item_id for hit in await papers.search(query, legs=["lexical"], typos=True)]
    assert "3" in hits
    assert ("x" in hits) is ("-un3x" not in query)


async def test_known_words_cost_one_statement_and_unknown_ones_few(platform: Platform, asked: list[list[str]]) -> None:
    """The number of words does not matter."""
    papers = await fill(platform)
    asked.clear()
    await papers.search("boundary layers of a hypersonic wing", legs=["lexical"], typos=True)
    assert [len(texts) for texts in asked] == [1, 1]
    asked.clear()
    await papers.search("bondary layr", legs=["lexical"], typos=True)
    assert [len(texts) for texts in asked] == [1, 2, 1, 1]


async def test_recently_written_words_are_known(platform: Platform) -> None:
    """Before its words are added up, too."""
    papers = await fill(platform)
    await papers.add([{"id": "n", "text": "zeppelins over Lakehurst"}])
    assert not (await papers.search("zeppelins", legs=["lexical"], typos=True)).notes
    reason = "no item has a word of the query, apart from stop words; to find misspelt words, search with typos"
    assert (await papers.search("zepelins", legs=["lexical"])).why_no_hits == (reason,)
    unknown = await papers.search("qqzzqq", legs=["lexical"], typos=True)
    assert unknown.why_no_hits == ("no item has a word of the query, apart from stop words",)
    assert not (await papers.search("zeppelins zepelins", legs=["lexical"])).notes
    assert not (await papers.search("zepelins", legs=["lexical"], syntax=False)).notes
    assert [hit.item_id for hit in await papers.search("zepelins", legs=["lexical"], typos=True)] == ["n"]


@pytest.mark.parametrize(("query", "replacement"), [("univrsitees", "universities"), ("analisys", "analyses")])
async def test_a_term_that_is_not_a_word_is_shown_as_a_word(platform: Platform, query: str, replacement: str) -> None:
    """The stem of a stem may be another: "univers" would be searched as "univer", which no item holds."""
    papers = await fill(platform)
    await papers.add([{"id": "u", "text": "Universities grant degrees; analyses of relativity at the boundary."}])
    result = await papers.search(query, legs=["lexical"], typos=True)
    assert "u" in [hit.item_id for hit in result]
    assert f"'{query}' as '{replacement}'" in result.notes[0]


async def test_advice_names_no_attribute_that_no_item_holds_any_more(platform: Platform) -> None:
    """This applies to every use of a field: in a filter, for grouping, in facets and pages."""
    papers = await fill(platform)
    await papers.add([{"id": "gone", "text": "x", "areal": "m"}])
    with pytest.raises(InvalidRequestError, match="areal"):
        await papers.search("heat", where={"areale": "m"})
    await papers.delete(["gone"])
    for search in (
        papers.search("heat", where={"areale": "m"}),
        papers.search("heat", group_by="areale"),
        papers.search("heat", facets=["areale"]),
        papers.search_each(["heat"], where={"areale": "m"}),
        papers.page({"areale": "m"}),
    ):
        with pytest.raises(InvalidRequestError, match="did you mean 'area'") as error:
            await search
        assert "areal'" not in str(error.value)
    assert not await papers.search("heat", where={"areal": "m"})


async def test_the_record_holds_the_corrected_query(platform: Platform) -> None:
    """A replay then searches the same."""
    papers = await fill(platform)
    result = await papers.search("bondary", legs=["lexical"], typos=True)
    await platform.recorded()
    assert result.retrieval_id is not None
    assert (await platform.retrieval(result.retrieval_id)).as_dict()["query"] == "boundary"


async def test_accents_and_other_scripts_are_corrected(platform: Platform) -> None:
    """In the letters of the word's script."""
    cafes = await platform.collection("cafes", language="french")
    await cafes.add([{"id": "1", "text": "un café à Genève"}, {"id": "2", "text": "красивые слова"}])
    assert [hit.item_id for hit in await cafes.search("geneve", legs=["lexical"], typos=True)] == ["1"]
    assert [hit.item_id for hit in await cafes.search("красивые слва", legs=["lexical"], typos=True)] == ["2"]


async def test_a_snippet_marks_the_words_of_the_query_in_any_form(platform: Platform, asked: list[list[str]]) -> None:
    """By one statement for all hits; the text stays as it is, and is escaped for a page; scripts are not searched."""
    papers = await fill(platform)
    await papers.add([{"id": "h", "text": "<b>Potatoes</b> & layers: 'cakes' with \\ and 50 % <script>cake</script>"}])
    asked.clear()
    first, *_ = await papers.search("cakes potato*", legs=["lexical"], snippet=200)
    assert [len(texts) for texts in asked] == [1, 1]
    assert first.snippet is not None
    assert first.snippet.text == first.body
    assert [first.body[start:end] for start, end in first.snippet.highlights] == ["Potatoes", "cakes"]
    assert first.snippet.html == (
        "&lt;b&gt;<mark>Potatoes</mark>&lt;/b&gt; &amp; layers: &#x27;<mark>cakes</mark>&#x27; with \\ and 50 % "
        "&lt;script&gt;cake&lt;/script&gt;"
    )
    assert first.as_dict()["snippet"]["html"] == first.snippet.html


async def test_a_snippet_marks_words_within_paths_and_names_and_shows_every_sign(platform: Platform) -> None:
    """A word that a search finds is marked, and no sign is lost."""
    papers = await fill(platform)
    await papers.add([{"id": "h", "text": "java.io.IOException for a read/write of List<String> in HDFS-1234"}])
    for query, marked in [
        ("IOException", "java.io.<mark>IOException</mark> for a read/write of List&lt;String&gt; in HDFS-1234"),
        (
            "write string",
            "java.io.IOException for a read/<mark>write</mark> of List&lt;<mark>String</mark>&gt; in HDFS-1234",
        ),
        (
            "hdfs-1234",
            "java.io.IOException for a read/write of List&lt;String&gt; in <mark>HDFS</mark>-<mark>1234</mark>",
        ),
    ]:
        first, *_ = await papers.search(query, legs=["lexical"], snippet=200)
        assert first.snippet is not None
        assert first.snippet.html == marked


async def test_a_long_text_is_cut_where_most_words_of_the_query_stand(platform: Platform) -> None:
    """The part has the requested size, anywhere in the text."""
    papers = await fill(platform)
    filler = "other things " * 300
    await papers.add([{"id": "long", "text": f"a layer {filler} the boundary of a layer. {filler}"}])
    hits = await papers.search("boundary layer", legs=["lexical"], snippet=60)
    snippet = next(hit.snippet for hit in hits if hit.item_id == "long")
    assert snippet is not None
    assert "the boundary of a layer." in snippet.text
    assert len(snippet.text) <= 62
    assert [snippet.text[start:end] for start, end in snippet.highlights] == ["boundary", "layer"]


async def test_snippets_of_titles_of_scripts_without_spaces_and_of_corrected_words(platform: Platform) -> None:
    """An item without a body shows its title; characters in parts are shown as one, ligatures as letters."""
    papers = await fill(platform)
    await papers.add([{"id": "t", "title": "Zeppelins"}, {"id": "j", "text": "\u6771\u4eac\u90fd\u306e\u5929\u6c17"}])
    await papers.add([{"id": "c", "text": "Cafe\u0301 au lait"}, {"id": "o", "text": "An o\ufb03ce"}])
    assert (await papers.complete("cafe\u0301")).queries == ("Caf\u00e9",)
    assert (await papers.complete("of\ufb01")).queries == ("office",)
    for query, item_id, marked in [
        ("zeppelin", "t", "<mark>Zeppelins</mark>"),
        ("zepelin", "t", "<mark>Zeppelins</mark>"),
        ("caff\u00e9", "c", "<mark>Caf\u00e9</mark> au lait"),
        ("caffe\u0301", "c", "<mark>Caf\u00e9</mark> au lait"),
        ("office", "o", "An <mark>office</mark>"),
        ("offi*", "o", "An <mark>office</mark>"),
        ("\u6771\u4eac", "j", "<mark>\u6771\u4eac</mark>\u90fd\u306e\u5929\u6c17"),
    ]:
        hits = await papers.search(query, legs=["lexical"], snippet=80, typos=True)
        assert {hit.item_id: hit.snippet.html for hit in hits if hit.snippet}[item_id] == marked


@pytest.mark.parametrize("size", [0, 19, 2001, True, "80", 80.5])
async def test_a_size_that_no_snippet_has_is_refused(platform: Platform, size: Any) -> None:
    """With the range that there is."""
    papers = await fill(platform)
    with pytest.raises(InvalidRequestError, match="from 20 to 2,000"):
        await papers.search("soup", snippet=size)


async def test_facets_count_what_the_filter_lets_through(platform: Platform, asked: list[list[str]]) -> None:
    """Found or not, in one round trip; a phrase of the query is a part of the filter."""
    papers = await fill(platform)
    await papers.add([{"id": "old", "text": "soup", "area": "food", "status": "archived"}])
    asked.clear()
    result = await papers.search("soup", legs=["lexical"], limit=1, facets=["area", "tags", "kind"])
    assert [len(texts) for texts in asked] == [1, 3]
    assert result.facets == {"area": {"aero": 3, "food": 1}, "tags": {"b": 2, "a": 1}, "kind": {}}
    assert list(result.facets["area"]) == ["aero", "food"]
    narrowed = await papers.search('"hypersonic" flow', where={"area": "aero"}, facets=["area", "tags"])
    assert narrowed.facets == {"area": {"aero": 2}, "tags": {"a": 1, "b": 1}}
    none = await papers.search("soup", where={"area": "nowhere"}, facets=["area"])
    assert (none.facets, len(none)) == ({"area": {}}, 0)
    assert none.why_no_hits
    assert result.as_dict()["facets"]["area"] == {"aero": 3, "food": 1}


async def test_a_facet_counts_a_limited_number_of_items_and_notes_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a search is limited, and so is the number of values."""
    monkeypatch.setattr("retrieval.adapters.store.items.collection_facts.FACET_ROWS", 3)
    monkeypatch.setattr("retrieval.engine.collection_search.FACET_ROWS", 3)
    result = await (await fill(platform)).search("soup", facets=["area"])
    assert result.notes == ("the facet 'area' counts only the first 3 items that pass the filter",)


async def test_a_facet_has_the_fifty_most_frequent_values(platform: Platform) -> None:
    """With or without items that have none."""
    papers = await fill(platform)
    await papers.add([{"id": f"t{no}", "text": "soup", "tags": [f"t{no}"], "no": no} for no in range(60)])
    facets = (await papers.search("soup", facets=["tags", "no"])).facets
    assert [len(counts) for counts in facets.values()] == [50, 50]
    assert next(iter(facets["tags"])) == "b"


@pytest.mark.parametrize(
    ("facets", "message"),
    [
        ("area", "in a list"),
        (["area"] * 11, "11 facets; at most 10"),
        (["aera"], "did you mean 'area'"),
        (["occurred_at"], "occurred_at"),
        ([7], "7"),
    ],
)
async def test_facets_that_cannot_be_counted_are_refused(platform: Platform, facets: Any, message: str) -> None:
    """Before anything is searched."""
    papers = await fill(platform)
    with pytest.raises(RetrievalError, match=message):
        await papers.search("soup", facets=facets)


async def test_an_unknown_facet_is_named_by_its_place(platform: Platform) -> None:
    """So that a program finds it in the request."""
    papers = await fill(platform)
    with pytest.raises(UnknownFieldError) as caught:
        await papers.search("soup", facets=["area", "aera"])
    assert caught.value.location == ("facets", 1)


async def test_completions_come_from_words_and_titles(platform: Platform, asked: list[list[str]]) -> None:
    """The last word, as items spell it; two statements."""
    papers = await fill(platform)
    await papers.add([{"id": "5", "title": "Wings and the boundary layer", "text": "Boundary layers, boundary layer"}])
    asked.clear()
    completion = await papers.complete("boundary la")
    assert [len(texts) for texts in asked] == [1, 1]
    assert completion.queries == ("boundary layer", "boundary layers", "boundary laminar")
    assert [title.id for title in completion.titles] == ["1", "5"]
    assert (await papers.complete("BOUND")).queries == ("boundary",)
    assert [title.title for title in (await papers.complete("boundary ")).titles] == [
        "Boundary layers",
        "Wings and the boundary layer",
    ]
    assert (await papers.complete("so", where={"area": "aero"})) == (await papers.complete("qqq"))
    assert len((await papers.complete("b", limit=1)).titles) == 1
    assert completion.as_dict()["titles"][0] == {"id": "1", "title": "Boundary layers"}


@pytest.mark.parametrize("text", ["", "  ", "%_\\", "b(*", "qqq", "-"])
async def test_texts_that_nothing_begins_with_complete_to_nothing(platform: Platform, text: str) -> None:
    """Signs are text, and an empty box is no error."""
    assert not (await (await fill(platform)).complete(text)).queries


@pytest.mark.parametrize("text", ["a\x00b", 7, None, "x" * 40_000])
async def test_a_value_that_is_not_a_text_is_refused(platform: Platform, text: Any) -> None:
    """As for a search."""
    papers = await fill(platform)
    with pytest.raises(RetrievalError):
        await papers.complete(text)


async def numbered(platform: Platform, numbers: Iterable[int]) -> Collection:
    """A collection of items, those with higher numbers ranking lower."""
    notes = await platform.collection("notes")
    await notes.add([{"id": f"n{number:03}", "text": "wind " + "filler " * number} for number in numbers])
    return notes


@pytest.mark.parametrize("legs", [["lexical"], None])
async def test_pages_are_the_search_in_parts(platform: Platform, legs: list[str] | None) -> None:
    """In its order, with its ranks, and with its scores."""
    notes = await numbered(platform, range(1, 26))
    whole = await notes.search("wind", legs=legs, limit=25)
    pages = list[Any]()
    after: str | None = ""
    while after is not None:
        hits = await notes.search("wind", legs=legs, limit=10, after=after)
        pages, after = [*pages, hits], hits.next
    assert [len(page) for page in pages] == [10, 10, 5, 0], "a short page may lack what was removed: an empty one ends"
    assert [(hit.item_id, hit.rank) for page in pages for hit in page] == [(hit.item_id, hit.rank) for hit in whole]
    assert (whole.next, pages[-1].next) == (None, None)


async def test_a_cursor_survives_writes(platform: Platform) -> None:
    """Items that come first, change or go between two pages: no hit is doubled, and none that was there is lost."""
    notes = await numbered(platform, range(10, 40))
    item_ids, ranks, page = list[str](), list[int](), 0
    after: str | None = ""
    while after is not None:
        hits = await notes.search("wind", legs=["lexical"], limit=7, after=after)
        item_ids, after, page = [*item_ids, *(hit.item_id for hit in hits)], hits.next, page + 1
        ranks += [hit.rank for hit in hits]
        await notes.add([{"id": f"new{page}-{number}", "text": "wind wind"} for number in range(3) if page < 4])
        await notes.add([{"id": "n039", "text": "wind wind wind"}, {"id": "n010", "text": "wind " + "late " * 60}])
        await notes.delete(["n011"])
    assert len(item_ids) == len(set(item_ids))
    assert ranks == list(range(1, len(item_ids) + 1))
    assert set(item_ids) >= {f"n{number:03}" for number in range(10, 40)}


async def test_no_group_is_on_two_pages(platform: Platform) -> None:
    """Although later pages look deeper, where another item of a group may become its best."""
    notes, chance = await platform.collection("notes"), random.Random(1)
    texts = [" ".join(chance.choices(["wind", "storm", "rain", "sun"], k=chance.randint(1, 9))) for _ in range(400)]
    await notes.add([{"id": f"{n}", "text": text, "n": n % 40 / 2} for n, text in enumerate(texts)])
    groups = list[float]()
    after: str | None = ""
    while after is not None:
        hits = await notes.search("wind sun", rewrites=["storm", "rain"], limit=7, group_by="n", after=after)
        groups, after = [*groups, *(hit.metadata["n"] for hit in hits)], hits.next
    assert sorted(groups) == [n / 2 for n in range(40)]


@pytest.mark.parametrize("after", ["x", "AAAA", "\u00e9" * 8, "A" * 16_000])
async def test_a_cursor_of_another_search_is_refused(platform: Platform, after: str) -> None:
    """The cursor of another query is refused too."""
    notes = await numbered(platform, range(3))
    with pytest.raises(InvalidRequestError, match="cursor"):
        await notes.search("wind", after=after)
    hits = await notes.search("wind", limit=1, after="")
    with pytest.raises(InvalidRequestError, match="another search"):
        await notes.search("storm", limit=1, after=hits.next)
    with pytest.raises(InvalidRequestError, match="another search"):
        await notes.search("wind", where={"kind": "x"}, limit=1, after=hits.next)
    other = await platform.collection("others")
    with pytest.raises(InvalidRequestError, match="another search"):
        await other.search("wind", limit=1, after=hits.next)


async def test_synonyms_of_the_profile_find_what_is_called_otherwise(platform: Platform) -> None:
    """By the lexical leg; they are marked in snippets, and no typo is seen in them."""
    papers = await fill(platform)
    assert not await papers.search("potage", legs=["lexical"])
    await papers.set_profile(replace(papers.profile, synonyms=(("potage", "soup"), ("airfoil", "wing"))))
    [hit] = await papers.search("potage", legs=["lexical"], snippet=60, typos=True)
    assert hit.snippet is not None
    assert (hit.item_id, hit.snippet.html) == ("3", "<mark>soup</mark> with potatoes and onions")
    hits = await papers.search("airfoil", legs=["lexical"], typos=True)
    assert ([hit.item_id for hit in hits], hits.notes) == (["1"], ())
    await platform.recorded()
    assert hits.retrieval_id is not None
    assert (await platform.replay(hits.retrieval_id)).is_reproduced
