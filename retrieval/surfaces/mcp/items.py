"""The tools over collections: list, search, get, add and rate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from retrieval.domain.api_key import Scope
from retrieval.domain.checks import STORED_NOTE, is_whole, json_line, named, quoted, shown_block, written
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.item import MAX_KEY_BYTES, Item
from retrieval.domain.learning.context import Context as Situation
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.snippet import LARGEST, SMALLEST
from retrieval.surfaces.mcp import values
from retrieval.surfaces.mcp.values import ToolAnswer, answer

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.items.collection import CollectionInfo
    from retrieval.surfaces.mcp.served import Served

MOST_COLLECTIONS = 1000
MOST_HITS = 50
MOST_ITEMS = 20
"""The greatest number of items in one call of get_items."""
MOST_ADDED = 100
MOST_TEXT = 1_000_000
"""The greatest number of characters of the text of an added item."""

LONGEST_VALUE = 200
"""The greatest number of characters of an attribute's JSON in a hit; get_items gives longer values."""

CollectionName = Annotated[str, values.sized(1, 512, "The collection's name, as list_collections gives it.")]
Where = Annotated[
    dict[str, Any] | None,
    WithJsonSchema(
        {
            "anyOf": [{"type": "object"}, {"type": "null"}],
            "default": None,
            "description": (
                "A filter: only items that match it are found. Fields are the attributes that hits show, and kind, "
                "tags, status, source, item_id, occurred_at, created_at. A value: equals (of a list: contains); a "
                "list: one of; gt, gte, lt, lte: a range, numbers as numbers, times as ISO 8601; ne, nin: not; "
                'exists: true or false; {"tags": {"all": [...]}}: all of them; and, or take lists of filters, not '
                "takes one. A field or value that no item has is reported, with the nearest ones."
            ),
            "examples": [
                {"priority": ["High", "Critical"], "hours": {"gte": 1, "lt": 24}},
                {"occurred_at": {"gte": "2026-05-01"}, "not": {"status": "closed"}},
                {"or": [{"tags": "billing"}, {"kind": "invoice"}]},
            ],
        }
    ),
]
Words = Annotated[
    str | None,
    values.sized(
        0,
        2000,
        'What to find, in plain words: searched by meaning and by words. "a phrase" must be in every hit, -word '
        "in none, begin* matches words with that prefix. Left out: by the filter alone, if the collection's "
        "profile allows it.",
    ),
]
HitLimit = Annotated[int, values.whole(1, MOST_HITS, "The greatest number of hits.")]
SnippetSize = Annotated[
    int,
    values.whole(
        SMALLEST,
        LARGEST,
        "Characters of each hit's snippet: the part with the query's words. get_items gives whole texts.",
    ),
]
GroupBy = Annotated[
    str | None, values.sized(0, 512, "A field, such as document_id: only the best hit of each of its values is given.")
]
LeastRelevance = Annotated[
    float | None,
    Field(
        ge=0, le=1, description="Leave out hits with a lower probability of relevance; not every collection knows it."
    ),
]
Typos = Annotated[
    bool, Field(strict=True, description="Replace words that no item has by the nearest ones; notes say which.")
]
Facets = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=512)]] | None,
    values.sized(0, 10, "Fields whose values are counted over all items that match the filter."),
]
After = Annotated[
    str | None,
    values.sized(
        0,
        10_000,
        'For more hits than one page: "" for the first page, then next of the previous answer, with the '
        "same arguments.",
    ),
]
ItemId = Annotated[str, Field(min_length=1, max_length=MAX_KEY_BYTES)]
ItemIds = Annotated[list[ItemId], values.sized(1, MOST_ITEMS, "The ids of items, as given in [].")]
Start = Annotated[
    int, Field(strict=True, ge=0, description="The character of each text to begin at: next_start of a cut text.")
]
Characters = Annotated[int, values.whole(100, 100_000, "The greatest number of characters of each item's text.")]


class NewItem(BaseModel):
    """An item to store. Other members become attributes, to filter by."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: Annotated[
        str,
        values.sized(1, MAX_KEY_BYTES, "Your own key for it, such as faq-12; an item of the same id is replaced."),
        BeforeValidator(lambda key: str(key) if is_whole(key) else key),
    ]
    title: Annotated[str | None, values.sized(0, 1000, "One line.")] = None
    text: Annotated[str | None, values.sized(0, MOST_TEXT, "What is searched, with the title.")] = None
    tags: Annotated[list[str] | None, Field(max_length=100)] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Field(description='JSON values by name, to filter by, such as {"priority": "High", "hours": 4}.'),
    ] = None
    kind: Annotated[str | None, values.sized(0, MAX_KEY_BYTES, "What sort of thing it is.")] = None
    source: Annotated[str | None, values.sized(0, MAX_KEY_BYTES, "Where it comes from.")] = None
    occurred_at: Annotated[str | None, values.sized(0, 100, "When it happened: ISO 8601.")] = None


NewItems = Annotated[list[NewItem], values.sized(1, MOST_ADDED, "The items: all of them are stored, or none.")]


class CollectionAnswer(ToolAnswer):
    """A collection's size and settings."""

    name: str
    items: Annotated[int, Field(ge=0, description="Items that a search can find.")]
    pending: Annotated[int, Field(ge=0, description="Items that for now are found only by their words.")] = 0
    by_meaning: Annotated[bool, Field(description="Whether it is searched by meaning, or only by words.")]
    language: str
    filterable: dict[str, str] = Field(default_factory=dict, description="Attributes with an index, by type.")


class CollectionsAnswer(ToolAnswer):
    """The collections, in the order of their names."""

    collections: list[CollectionAnswer]


class HitAnswer(ToolAnswer):
    """A hit of a search."""

    id: Annotated[str, Field(description="The id to give to get_items.")]
    title: Annotated[str, Field(description=values.DATA)] = ""
    snippet: Annotated[str, Field(description=f"A part of its text. {values.DATA}")] = ""
    score: Annotated[float, Field(description="Higher is better; comparable within one search only.")]
    relevance: float | None = Field(None, description="The probability that it is relevant; null: not known.")
    kind: str = ""
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict, description="The attributes, by which where can filter.")
    occurred_at: str | None = None


class FoundAnswer(ToolAnswer):
    """The hits of a search, the best first."""

    hits: list[HitAnswer]
    retrieval_id: Annotated[str | None, Field(description="The recorded search, for rate_hit.")] = None
    notes: list[str] = Field(
        default_factory=list, description="What the search had to leave out; why nothing was found."
    )
    facets: dict[str, dict[str, int]] = Field(default_factory=dict, description="Items by value, by field.")
    next: Annotated[str | None, Field(description="The value of after for the next page; null: no more.")] = None


class ItemAnswer(ToolAnswer):
    """A whole item; long texts are cut."""

    id: str
    title: Annotated[str, Field(description=values.DATA)] = ""
    text: Annotated[str, Field(description=values.DATA)] = ""
    start: Annotated[int, Field(description="The character that the text begins at.")] = 0
    characters: Annotated[int, Field(description="Characters of the whole text.")] = 0
    next_start: int | None = Field(None, description="Give it as start for the rest of the text; null: none.")
    kind: str = ""
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    status: str = ""
    source: str = ""
    occurred_at: str | None = None


class ItemsAnswer(ToolAnswer):
    """The items that exist, in the order of the request."""

    items: list[ItemAnswer]
    missing: list[str] = Field(default_factory=list, description="The ids that no item has.")


class AddedItemsAnswer(ToolAnswer):
    """The result of adding items."""

    added: values.Count
    changed: values.Count
    unchanged: values.Count
    pending: Annotated[int, Field(ge=0, description="Stored, but for now found only by their words.")]
    notes: list[str] = Field(default_factory=list)


class RatedAnswer(ToolAnswer):
    """The result of a verdict."""

    counts: bool
    note: str


_WHY_NOT = {"not shown": "that search did not show the item; give the retrieval_id of the search that did"}
"""Reasons why a verdict does not count that the caller can mend, and how."""


class ItemTools:
    """The tools over the caller's collections."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def as_tools(self) -> list[values.ScopedTool]:
        """The tools, each with its scope."""
        return [
            values.scoped(self.list_collections, "List collections"),
            values.scoped(self.search_collection, "Search a collection"),
            values.scoped(self.get_items, "Get items"),
            values.scoped(self.add_items, "Add items", Scope.WRITE, destroys=True),
            values.scoped(self.rate_hit, "Rate a hit", Scope.FEEDBACK),
        ]

    async def list_collections(self) -> Annotated[CallToolResult, CollectionsAnswer]:
        """List the collections that can be searched, each with its size and the attributes that have an index."""
        platform = await self._served.platform()
        from retrieval.engine.reading import infos_after

        infos = await infos_after(platform.database, platform.tenant_id, after="", limit=MOST_COLLECTIONS)
        collections = [_collection_answer(info) for info in infos]
        text = "\n".join(map(_collection_line, collections)) or _NO_COLLECTION
        return answer(text, CollectionsAnswer(collections=collections))

    async def search_collection(
        self,
        ctx: Context,
        collection: CollectionName,
        query: Words = None,
        where: Where = None,
        limit: HitLimit = 10,
        *,
        snippet: SnippetSize = 300,
        group_by: GroupBy = None,
        min_relevance: LeastRelevance = None,
        typos: Typos = False,
        facets: Facets = None,
        after: After = None,
    ) -> Annotated[CallToolResult, FoundAnswer]:
        """Search a collection by meaning and by words, narrowed by a filter; gives the best hits with snippets.

        Ask in the user's own words, then in others if nothing fits. Cite hits by their id. The attributes of the hits
        are what where can filter by; facets count the values of a field.
        """
        result = await (await self._collection(collection)).search(
            query, where=where, limit=limit, snippet=snippet, group_by=group_by, min_relevance=min_relevance,
            typos=typos, facets=facets or (), after=after, context=Situation(session=self._served.session_of(ctx)),
        )  # fmt: skip
        notes = [*result.notes, *result.why_no_hits]
        hits = FoundAnswer.of(result, hits=[_hit_answer(hit) for hit in result], notes=notes)
        return answer(_found_text(collection, hits), hits)

    async def get_items(
        self, collection: CollectionName, item_ids: ItemIds, start: Start = 0, characters: Characters = 10_000
    ) -> Annotated[CallToolResult, ItemsAnswer]:
        """Get items by their ids, with their whole texts and attributes; a long text comes part by part."""
        items_by_id = await (await self._collection(collection)).get(item_ids)
        if not items_by_id:
            raise UnknownItemError(
                f"collection {written(collection)} has no item {written(item_ids[0])}; "
                "give ids as search_collection shows them in []"
            )
        items = [
            _item_answer(items_by_id[key], start, characters) for key in dict.fromkeys(item_ids) if key in items_by_id
        ]
        missing = [key for key in dict.fromkeys(item_ids) if key not in items_by_id]
        parts = [STORED_NOTE, *map(_item_text, items)]
        parts += [f"There is no item {', '.join(map(named, missing))}."] if missing else []
        return answer("\n\n".join(parts), ItemsAnswer(items=items, missing=missing))

    async def add_items(
        self, collection: CollectionName, items: NewItems
    ) -> Annotated[CallToolResult, AddedItemsAnswer]:
        """Store new items or new versions in an existing collection: all of them, or none.

        An item with an existing id is replaced as a whole. Give each item a text: an item without title and text is
        found only by filters.
        """
        offer = self._served.offer
        if tool := {offer.principles: "add_principle", offer.memories: "store_memory"}.get(collection):
            raise InvalidRequestError(
                f"add_items does not change collection {written(collection)}: its items have a record; use {tool}"
            )
        report = await (await self._collection(collection)).add([item.model_dump(exclude_unset=True) for item in items])
        result = AddedItemsAnswer.of(report)
        waiting = f"; {result.pending} for now found only by words" if result.pending else ""
        text = f"{result.added} added, {result.changed} changed, {result.unchanged} unchanged{waiting}."
        return answer("\n".join([text, *values.note_lines(result.notes)]), result)

    async def rate_hit(
        self,
        ctx: Context,
        retrieval_id: Annotated[str, values.sized(1, 100, "The retrieval_id of the search that returned it.")],
        item_id: Annotated[ItemId, Field(description="The id of the hit, as given in [].")],
        was_helpful: Annotated[bool, Field(strict=True, description="Whether it answered the question.")],
        note: Annotated[str | None, values.sized(0, 1000, "Briefly why.")] = None,
    ) -> Annotated[CallToolResult, RatedAnswer]:
        """Say whether a hit of search_collection was helpful, once you know: later searches learn from it.

        Your last verdict on a hit counts.
        """
        platform = await self._served.platform()
        event = Feedback(
            retrieval_id=retrieval_id,
            item_id=item_id,
            helpful=was_helpful,
            session=self._served.session_of(ctx),
            note=note or "",
        )
        report = await platform.feedback_each([event], api_key=self._served.caller.key, new=True)
        reasons = ", ".join(_WHY_NOT.get(reason, reason) for reason in report.discounted)
        said = f"Recorded, but it does not count: {reasons}." if reasons else "Feedback recorded."
        return answer(said, RatedAnswer(counts=not reasons, note=said))

    async def _collection(self, name: str) -> Collection:
        return await (await self._served.platform()).collection(name, create=False)


def _collection_answer(info: CollectionInfo) -> CollectionAnswer:
    by_meaning = info.space is not None and (info.pending < info.items or not info.items)
    return CollectionAnswer.of(info, by_meaning=by_meaning, language=info.text_search_config)


_NO_COLLECTION = "There are no collections yet. Let the user make one with: retrieval ingest NAME FILE"


def _collection_line(answer: CollectionAnswer) -> str:
    parts = [
        f"{named(answer.name)}: {answer.items:,} items",
        "by meaning and words" if answer.by_meaning else "by words only",
    ]
    if answer.by_meaning and answer.pending:
        parts.append(f"{answer.pending:,} of them for now by words only")
    if answer.filterable:
        parts.append(f"indexed: {', '.join(f'{named(name)} ({kind})' for name, kind in answer.filterable.items())}")
    return " · ".join(parts)


def _hit_answer(hit: Hit) -> HitAnswer:
    return HitAnswer.of(
        hit,
        snippet=shown_block(hit.snippet.text) if hit.snippet else "",
        score=round(hit.score, 5),
        relevance=None if hit.relevance is None else round(hit.relevance, 3),
        metadata={name: _short(value) for name, value in hit.attributes.items()},
    )


def _short(value: Any) -> Any:
    long = len(json.dumps(value, ensure_ascii=False))
    return value if long <= LONGEST_VALUE else f"… ({long:,} characters; get_items gives it)"


def _found_text(collection: str, hits: FoundAnswer) -> str:
    parts = [STORED_NOTE, *map(_hit_text, hits.hits)] if hits.hits else ["Nothing was found."]
    parts += values.note_lines(hits.notes)
    for name, counts in hits.facets.items():
        counted = ", ".join(f"{named(value)} ({n})" for value, n in counts.items())
        parts.append(f"{named(name)}: {counted or 'no item has a value'}")
    if hits.hits:
        ids = f"get_items({json_line(collection)}, [id, ...]) gives whole texts"
        parts.append(ids if hits.next is None else f"{ids}; after={hits.next} gives the next hits")
    if hits.retrieval_id is not None:
        parts.append(f"retrieval_id: {hits.retrieval_id}")
    return "\n\n".join(parts)


def _hit_text(hit: HitAnswer) -> str:
    relevance = "" if hit.relevance is None else f" · relevance {hit.relevance:.2f}"
    return values.entry(hit.id, f" {quoted(hit.title)} · score {hit.score:g}{relevance}", hit.snippet, _about_text(hit))


def _about_text(found: HitAnswer | ItemAnswer) -> str:
    parts = [f"kind: {named(found.kind)}"] if found.kind else []
    parts += [f"tags: {', '.join(map(named, found.tags))}"] if found.tags else []
    parts += [f"{named(name)}: {json_line(value)}" for name, value in found.metadata.items()]
    parts += [f"occurred_at: {found.occurred_at}"] if found.occurred_at else []
    return " · ".join(parts)


def _item_answer(item: Item, start: int, characters: int) -> ItemAnswer:
    whole = shown_block(item.body)
    text, rest = values.part_of(whole, start, characters)
    return ItemAnswer.of(item, text=text, start=start, characters=len(whole), next_start=rest)


def _item_text(item: ItemAnswer) -> str:
    more = ""
    if item.next_start is not None:
        remaining = item.characters - item.next_start
        more = f"… {remaining:,} more characters; get_items with start={item.next_start} gives them"
    return values.entry(item.id, f" {quoted(item.title)}", item.text, more, _about_text(item))
