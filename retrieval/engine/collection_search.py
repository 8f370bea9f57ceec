"""The searches of a collection: converts arguments to requests, which the searcher answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from retrieval.adapters.aside import LONG, LONG_TEXT, aside
from retrieval.adapters.store.items.collection_facts import FACET_ROWS, facet_counts
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidates import SpaceMovedError
from retrieval.adapters.store.search.words import beginnings_of, marked_texts
from retrieval.domain.checks import checked_limit, checked_list, checked_whole, written
from retrieval.domain.errors import DatabaseBusyError, InvalidRequestError, UnknownFieldError
from retrieval.domain.items.collection import counted_field
from retrieval.domain.learning.context import Context, checked_context
from retrieval.domain.search import spelling
from retrieval.domain.search.filters import Field, Filter, Where
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import MAX_SHOWN, Hit, SearchResult, read_cursor
from retrieval.domain.search.profile import DEPTH, LegName, Profile, leg_name
from retrieval.domain.search.query import SearchBounds, with_synonyms
from retrieval.domain.search.snippet import LARGEST, READ, SMALLEST, snippet_of
from retrieval.domain.search.spelling import Completions
from retrieval.domain.words import usual_form
from retrieval.engine.collection_handle import CollectionHandle, checks_existence, from_a_replica
from retrieval.engine.conditions import parsed_filter
from retrieval.engine.correction import corrected_query
from retrieval.engine.request import (
    MAX_PREFERRED,
    SearchRequest,
    check_profile,
    checked_query_vector,
    checked_request,
    checked_requests,
)
from retrieval.engine.search import Searcher

if TYPE_CHECKING:
    from retrieval.domain.search.preview import Preview


@from_a_replica
async def search(
    handle: CollectionHandle,
    /,
    query: str | None,
    *,
    where: Where | Filter | None = None,
    legs: Sequence[str] | None = None,
    profile: Profile | None = None,
    prefer: Where | Filter | Sequence[Where | Filter] | None = None,
    about: object = None,
    context: Context,
    syntax: bool = True,
    typos: bool = False,
    snippet: int | None = None,
    facets: Sequence[str] = (),
    after: str | None = None,
    **options: Any,
) -> SearchResult:
    """See ``Collection.search``; ``options`` go to ``checked_request`` unchanged."""
    checked_context(context)
    size = None if snippet is None else checked_whole("snippet", snippet, SMALLEST, LARGEST)
    counted = {} if isinstance(facets, tuple) and not facets else await _counted_fields(handle, facets)
    stored, bounds = await handle.fresh(), handle.shared.bounds
    chosen = _call_profile(handle, stored, legs, profile)
    condition = None if where is None else await parsed_filter(where, bounds)
    preferred = None if prefer is None else await _parsed_preferred(prefer, bounds)
    options |= {"syntax": syntax, "wordless_note": _wordless_note(syntax=syntax, typos=typos)}
    options["needs_question"] = options.get("vector") is None and (chosen or stored.profile).needs_question
    request_for = partial(checked_request, condition=condition, profile=chosen, preferred=preferred, bounds=bounds)
    is_long = query is not None and _is_long(query, options.get("rewrites"))
    first = request = await aside(lambda: request_for(query, **options), is_long=is_long)
    notes: tuple[str, ...] = ()
    if typos and query:
        searcher, synonyms = _searcher(handle, stored), (chosen or stored.profile).synonyms
        corrected = await corrected_query(searcher, query, synonyms, bounds=bounds, syntax=syntax)
        if notes := corrected.notes:
            request = request_for(corrected.text, **options)
            request = replace(request, prefixes=tuple(dict.fromkeys(request.prefixes + corrected.prefixes)))
    cursor = None if after is None else read_cursor(after, _identity(handle, stored, first))
    if cursor is not None:
        request = replace(request, limit=min(len(cursor.passed) + request.limit, MAX_SHOWN), after=cursor)
    request = request if about is None else replace(request, about=checked_query_vector(about, stored, "about"))
    [result] = await _with_current(
        handle,
        stored,
        lambda searcher: searcher.search_each([request], context),
        has_vectors=request.vector is not None or request.about is not None,
    )
    result = replace(result, notes=(*notes, *result.notes)) if notes else result
    result = await _with_facets(handle, stored, result, request.condition, counted) if counted else result
    if not result.hits:
        [result] = await _explained(handle, [request], [result])
    return result if size is None or not result.hits else await _with_snippets(handle, stored, result, request, size)


@from_a_replica
async def search_each(
    handle: CollectionHandle,
    /,
    queries: Sequence[str],
    *,
    where: Where | Filter | None,
    legs: Sequence[str] | None,
    profile: Profile | None,
    context: Context,
    syntax: bool = True,
    **options: Any,
) -> list[SearchResult]:
    """See ``Collection.search_each``; ``options`` go to ``checked_requests`` unchanged."""
    checked_context(context)
    stored, bounds = await handle.fresh(), handle.shared.bounds
    condition, chosen = await parsed_filter(where, bounds), _call_profile(handle, stored, legs, profile)
    options |= {"syntax": syntax, "wordless_note": _wordless_note(syntax=syntax)}
    requests = await aside(
        lambda: checked_requests(queries, condition=condition, profile=chosen, bounds=bounds, **options),
        is_long=_is_long(None, queries),
    )
    results = await _with_current(
        handle,
        stored,
        lambda searcher: searcher.search_each(requests, context),
        has_vectors=any(request.vector is not None for request in requests),
    )
    return await _explained(handle, requests, results)


async def preview(
    handle: CollectionHandle,
    query: str,
    *,
    profiles: Mapping[str, Profile],
    where: Where | Filter | None,
    context: Context,
    **options: Any,
) -> Preview:
    """See ``Collection.preview``; ``options`` go to ``search`` unchanged."""
    from retrieval.domain.search.preview import checked_profiles, preview_of

    profiles, condition = checked_profiles(profiles), await parsed_filter(where, handle.shared.bounds)
    search_by = partial(search, handle.unrecorded(), query, where=condition, context=context, **options)
    results = [(name, profile, await search_by(profile=profile)) for name, profile in profiles.items()]
    is_long = sum(len(result) for _, _, result in results) >= LONG
    return await aside(lambda: preview_of(query, results), is_long=is_long)


@checks_existence
async def leg_rankings(
    handle: CollectionHandle,
    query: str,
    *,
    where: Where | Filter | None = None,
    legs: Sequence[str] = ("dense", "lexical"),
    depth: int = DEPTH,
) -> dict[str, list[Candidate]]:
    """The ``depth`` candidates of each leg before fusion, best first, for the query without changes.

    If both the dense and the lexical leg run, each also ranks the other's candidates by its own score.
    """
    stored, bounds = await handle.fresh(), handle.shared.bounds
    profile = replace(stored.profile.only(tuple(map(leg_name, legs))), depth=depth)
    condition = await parsed_filter(where, bounds)
    request = checked_request(query, limit=depth, condition=condition, profile=profile, syntax=False, bounds=bounds)
    return await _with_current(handle, stored, lambda searcher: searcher.leg_rankings(request))


async def _with_snippets(
    handle: CollectionHandle, stored: StoredCollection, result: SearchResult, request: SearchRequest, size: int
) -> SearchResult:
    """The result with the snippet of each hit, by one statement."""
    ids = [hit.item_id for hit in result]
    words = with_synonyms(request.query, (request.profile or stored.profile).synonyms)
    texts = await marked_texts(handle.database, handle.tenant_id, stored, words, ids)

    def cut(hit: Hit) -> Hit:
        text, marked = texts.get(hit.item_id, (hit.body[:READ] or hit.title, ""))
        return replace(hit, snippet=snippet_of(text, marked, words, request.prefixes, size))

    is_long = sum(len(text) for text, _ in texts.values()) >= LONG_TEXT
    return replace(result, hits=await aside(lambda: tuple(map(cut, result)), is_long=is_long))


async def parts_of(handle: CollectionHandle, query: str, hit: Hit) -> Callable[[int], str]:
    """The function that returns a part of a hit's text of the given length, the part with most words of the query."""
    stored, request = await handle.fresh(), checked_request(query, bounds=handle.shared.bounds)
    words = with_synonyms(request.query, stored.profile.synonyms)
    texts = await marked_texts(handle.database, handle.tenant_id, stored, words, [hit.item_id])
    text, marked = texts.get(hit.item_id, (hit.body[:READ], ""))
    return lambda size: snippet_of(text, marked, words, request.prefixes, size).text


def _identity(handle: CollectionHandle, stored: StoredCollection, request: SearchRequest) -> str:
    """The text that identifies a search in every process, apart from the page's size and the time."""
    vector = None if request.vector is None else request.vector.tobytes()
    sets = (sorted(request.entities), sorted(request.tags))
    parts = (request.query, request.prefixes, request.rewrites, request.condition, request.preferred, request.group_by)
    bounds = (request.min_score, request.min_relevance)
    return repr((handle.tenant_id, stored.collection_id, *parts, sets, vector, bounds))


_NO_WORD = "no item{} has a word of the query, apart from stop words"
_FIND_TYPOS = "to find misspelt words, search with typos"


def _wordless_note(*, syntax: bool, typos: bool = False) -> str:
    """The ``wordless_note`` of a request; none where the query is taken literally."""
    if syntax is not True:
        return ""
    return _NO_WORD if typos else f"{_NO_WORD}; {_FIND_TYPOS}"


_MOST_LEGS = len(LegName)
_MOST_COMPLETIONS = 100
_MOST_FACETS = 10
_SOME_COUNTED = "the facet {0!r} counts only the first {1:,} items that pass the filter"


async def _counted_fields(handle: CollectionHandle, names: Sequence[str]) -> dict[str, Field]:
    """The fields of the facets. Raises ``InvalidRequestError``, and ``UnknownFieldError`` for an unknown field."""
    names = checked_list("facets", names, "['kind', 'tags']")
    if len(names) > _MOST_FACETS:
        raise InvalidRequestError(f"{len(names)} facets; at most {_MOST_FACETS}, name only those that are shown")
    fields: dict[str, Field] = {}
    for number, name in enumerate(names):
        try:
            fields[name] = counted_field(name)
            await handle.filtered(None, also=fields[name])
        except InvalidRequestError as error:
            error.location = ("facets", number)
            raise
    return fields


async def _with_facets(
    handle: CollectionHandle,
    stored: StoredCollection,
    result: SearchResult,
    condition: Filter | None,
    fields: Mapping[str, Field],
) -> SearchResult:
    """The result with the counts of the fields' values, in one round trip."""
    answers = await facet_counts(handle.database, handle.tenant_id, stored, list(fields.values()), condition)
    counts = {name: values for name, (values, _) in zip(fields, answers, strict=True)}
    partly = (name for name, (_, is_all) in zip(fields, answers, strict=True) if not is_all)
    return replace(
        result, facets=counts, notes=(*result.notes, *(_SOME_COUNTED.format(name, FACET_ROWS) for name in partly))
    )


@from_a_replica
async def complete(handle: CollectionHandle, text: str, *, where: Where | Filter | None, limit: int) -> Completions:
    """See ``Collection.complete``."""
    stored, bounds = await handle.fresh(), handle.shared.bounds
    checked_limit(limit, _MOST_COMPLETIONS)
    condition = await parsed_filter(where, bounds)
    if not text.strip():
        return Completions((), ())
    profile = Profile(legs={LegName.LEXICAL: 1.0}, depth=spelling.COMPLETION_ITEMS)
    request = checked_request(
        text, limit=spelling.COMPLETION_ITEMS, condition=condition, profile=profile, syntax=False, bounds=bounds
    )
    typed = spelling.split_typed(usual_form(text))
    request = replace(request, prefixes=(typed.beginning,)) if typed.beginning else request
    rankings = await _with_current(handle, stored, lambda searcher: searcher.leg_rankings(request))
    ids = [candidate.item_id for candidate in rankings[LegName.LEXICAL][: spelling.COMPLETION_ITEMS]]
    items = await beginnings_of(handle.place_of(stored), ids, spelling.READ)
    return spelling.completions_of(typed, items, limit)


async def _explained(
    handle: CollectionHandle, requests: Sequence[SearchRequest], results: list[SearchResult]
) -> list[SearchResult]:
    """The results, those without hits with the reasons. Unrecorded searches, made to measure, get none."""
    unexplained = {
        position: request.condition
        for position, (request, result) in enumerate(zip(requests, results, strict=True))
        if not (result.hits or result.why_no_hits or (request.after is not None and request.after.passed))
    }
    if not unexplained or not handle.is_recorded:
        return results
    from retrieval.engine.no_hits import reasons

    why = await reasons(handle, unexplained.values())
    return [
        replace(result, why_no_hits=why[unexplained[position]]) if position in unexplained else result
        for position, result in enumerate(results)
    ]


_Answer = TypeVar("_Answer")

_MOST_ATTEMPTS = 3
"""The most attempts of one search if other processes change the collection."""


async def _with_current(
    handle: CollectionHandle,
    stored: StoredCollection,
    ask: Callable[[Searcher], Awaitable[_Answer]],
    *,
    has_vectors: bool = False,
) -> _Answer:
    """The searcher's answer; if the collection has changed since it was read, it is read and searched again.

    ``has_vectors``: the caller gave vectors, which are refused after a change of the space.
    """
    for attempt in range(_MOST_ATTEMPTS):
        try:
            return await ask(_searcher(handle, stored))
        except UnknownFieldError:
            if attempt:
                raise
            stored = await handle.with_existing_fields()
        except SpaceMovedError:
            stored = await handle.refresh()
            if has_vectors:
                name = "no embedding space" if stored.space is None else stored.space.space.name
                raise InvalidRequestError(
                    f"collection {handle.name!r} has meanwhile moved to {name}; give a vector of that space"
                ) from None
    raise DatabaseBusyError(f"collection {handle.name!r} is moving between embedding spaces; try again")


def _searcher(handle: CollectionHandle, stored: StoredCollection) -> Searcher:
    if handle.searcher is not None and handle.searcher.collection is stored:
        return handle.searcher
    shared, is_recorded = handle.shared, handle.is_recorded
    handle.searcher = Searcher(
        database=shared.database,
        tenant_id=shared.tenant_id,
        collection=stored,
        embedder=handle.embedder_of(stored),
        sampler=shared.sampler if is_recorded else None,
        recorder=shared.recorder if is_recorded else None,
        decider=shared.decider,
        reranker=shared.reranker,
        observer=shared.observer if is_recorded else None,
        chance=shared.chance,
        clock=shared.clock,
        wall_clock=shared.wall_clock,
    )
    return handle.searcher


async def _parsed_preferred(prefer: object, bounds: SearchBounds) -> tuple[Filter | None, ...]:
    each = prefer if isinstance(prefer, list | tuple) else (prefer,)
    return tuple([await parsed_filter(mapping, bounds) for mapping in each[: MAX_PREFERRED + 1]])


def _call_profile(
    handle: CollectionHandle, stored: StoredCollection, legs: Sequence[str] | None, profile: Profile | None
) -> Profile | None:
    """The profile of this call; None: the collection's."""
    if profile is not None:
        check_profile(profile)
    if legs is None:
        return profile
    if (type(legs) is not list and (isinstance(legs, str) or not isinstance(legs, Sequence))) or not legs:
        raise InvalidRequestError(f"legs must be a list of names such as ['dense', 'lexical'], not {written(legs)}")
    if len(legs) > _MOST_LEGS:
        raise InvalidRequestError(f"{len(legs)} legs; there are {_MOST_LEGS}, name each once")
    return handle.narrowed(profile or stored.profile, tuple(legs))


def _is_long(query: object, more: object) -> bool:
    """Whether the query and the other texts take long to parse."""
    if more is None:
        return isinstance(query, str) and len(query) >= LONG_TEXT
    texts = [text for text in (query, *(more if isinstance(more, list | tuple) else ())) if isinstance(text, str)]
    return len(texts) >= LONG or sum(map(len, texts)) >= LONG_TEXT
