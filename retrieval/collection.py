"""A collection: add items to it, search it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from retrieval.adapters.aside import LONG, LONG_TEXT, aside
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import ARCHIVED, remove_items
from retrieval.domain.errors import InvalidRequestError, UnknownFieldError
from retrieval.domain.items.embedding import checked_vectors
from retrieval.domain.items.item import Item, check_key
from retrieval.domain.learning.context import Context, checked_context
from retrieval.domain.observer import Observer
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.profile import DEPTH, LegName, Profile, leg_name
from retrieval.domain.search.query import DEFAULT_BOUNDS, SearchBounds
from retrieval.engine.accesses import AccessCounter
from retrieval.engine.answers import AnswerCalls
from retrieval.engine.collection_handle import Embedders, parsed_filter, told_if_gone
from retrieval.engine.decide import Decider
from retrieval.engine.profile_calls import ProfileCalls
from retrieval.engine.reading_calls import ListingCalls, ReadingCalls, RecordCalls
from retrieval.engine.recorder import Recorder, Sampler
from retrieval.engine.request import (
    MAX_PREFERRED,
    SearchRequest,
    checked_item_ids,
    checked_query_vector,
    checked_request,
    checked_requests,
)
from retrieval.engine.search import Searcher
from retrieval.engine.shared_calls import SharedCalls
from retrieval.engine.stopwatch import Clock
from retrieval.jobs.learning_calls import LearningCalls
from retrieval.services.calls import ChangingCalls, IndexingCalls
from retrieval.services.document_calls import DocumentCalls
from retrieval.services.workplace import Workplace

if TYPE_CHECKING:
    from retrieval.adapters.readers import InputLine
    from retrieval.engine.shared_calls import RewriteCache
    from retrieval.services.add import AddReport
    from retrieval.services.ingest import IngestReport, Progress, Rejected


class Collection(
    ReadingCalls,
    ListingCalls,
    ChangingCalls,
    DocumentCalls,
    IndexingCalls,
    LearningCalls,
    AnswerCalls,
    ProfileCalls,
    RecordCalls,
):
    """A named corpus of one tenant. ``Platform.collection`` gives it."""

    def __init__(
        self,
        database: Database,
        tenant_id: int,
        stored: StoredCollection,
        embedder: CachedEmbedder | None,
        *,
        clock: Clock = time.monotonic,
        wall_clock: Clock = time.time,
        chance: random.Random | None = None,
        sampler: Sampler | None = None,
        recorder: Recorder | None = None,
        accesses: AccessCounter | None = None,
        decider: Decider | None = None,
        workplace: Workplace | None = None,
        rewrites_days: float = 30,
        calls: SharedCalls | None = None,
        observer: Observer | None = None,
        embedders: Embedders | None = None,
        bounds: SearchBounds = DEFAULT_BOUNDS,
    ) -> None:
        super().__init__(
            database,
            tenant_id,
            stored,
            embedder,
            clock=clock,
            wall_clock=wall_clock,
            chance=chance,
            recorder=recorder,
            decider=decider,
            embedders=embedders,
            bounds=bounds,
        )
        self.calls = calls or SharedCalls()
        """Calls of language models that are under way, shared by all who ask the same."""
        self._rewrites_days = rewrites_days
        self._accesses = accesses
        self._sampler = sampler
        self._workplace = workplace
        self._observer = observer

    @property
    def rewrite_cache(self) -> RewriteCache:
        """Where rewrites of questions are kept, so that a language model is asked once for each."""
        from retrieval.engine.shared_calls import RewriteCache

        return RewriteCache(
            database=self._database, tenant_id=self._tenant_id, wall_clock=self._wall_clock, days=self._rewrites_days
        )

    def __repr__(self) -> str:
        return f"<Collection {self.name!r}: {self._stored.documents} items>"

    def _repr_html_(self) -> str:
        from retrieval.domain.notebook import facts_html

        # As last read: what shows a value must not wait for a database.
        stored = self._stored
        about = {
            "items": f"{stored.documents:,}",
            "embedding space": stored.space.space.name if stored.space else "none: words alone",
            "language": stored.text_search_config,
            "profile": f"version {stored.profile_version}, legs {', '.join(stored.profile.legs)}",
            "index": "HNSW" if stored.ann_index else "none: every search compares all",
            "filterable": ", ".join(f"{name} ({kind.value})" for name, kind in stored.filterable),
            "model": stored.model_version or None,
        }
        return facts_html(f"collection {self.name}", about.items())

    @told_if_gone
    async def add(self, items: Iterable[Item | Mapping[str, Any]], *, embeddings: object = None) -> AddReport:
        """Store items, given as ``Item`` values or as dictionaries in the ingest format; unchanged ones cost nothing.

        Of items with the same key the last counts. ``embeddings``: precomputed vectors, shape (number of items,
        dimensions), used instead of the embedder. Nothing is stored when an item or a given vector is refused:
        ``InvalidItemError`` or ``InvalidVectorError`` with its key is raised. Many items are stored part by part:
        what interrupts the call leaves some of them stored, and the same call again stores the others. If the embedder
        fails or its vector for an item cannot be used, the items are stored, ``report.pending`` counts those that wait,
        and ``report.notes`` names what was refused, and tells of items without title and text.
        """
        from retrieval.services.add import add_in_parts, as_items
        from retrieval.services.ingest import without_text_notes

        batch = as_items(items)
        vectors = None
        if embeddings is not None:
            space = (await self._fresh()).space
            if space is None:
                raise InvalidRequestError(
                    f"collection {self.name!r} has no embedding space for the vectors; make it with "
                    "platform.collection(name, space=EmbeddingSpace(provider=..., model=..., dimensions=...))"
                )
            vectors = checked_vectors(embeddings, space.space, [item.item_id for item in batch])
        report = await add_in_parts(await self._writer(), batch, vectors)
        told = without_text_notes(batch) if vectors is None else ()
        return replace(report, notes=(*report.notes, *told, *await self._keep_indexed(report)))

    @told_if_gone
    async def add_new(self, items: Iterable[Item | Mapping[str, Any]]) -> AddReport:
        """Store items that must not be there yet, all or none; of those who bring the same id at once, one does.

        Raises ``InvalidItemError``, also for an id that is there, archived or not. Else as ``add``.
        """
        from retrieval.services.add import add_new, as_items

        report = await add_new(await self._writer(), as_items(items))
        return replace(report, notes=report.notes + await self._keep_indexed(report))

    @told_if_gone
    async def ingest(
        self,
        lines: Iterator[InputLine],
        *,
        rejected: Rejected | None = None,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Store a stream of lines (``retrieval.read_items`` makes one); see ``retrieval.services.ingest.ingest``."""
        from retrieval.services.add import AddReport
        from retrieval.services.ingest import checked_lines, ingest

        checked_lines(lines)
        writer = await self._writer()
        report = await ingest(writer, lines, rejected=rejected, prune=prune, progress=progress)
        notes = await self._keep_indexed(report.items)
        return replace(report, items=report.items + AddReport(notes=notes))

    @told_if_gone
    async def search(
        self,
        query: str | None = None,
        *,
        vector: object = None,
        where: Where | Filter | None = None,
        limit: int = 10,
        legs: Sequence[str] | None = None,
        profile: Profile | None = None,
        group_by: str | None = None,
        syntax: bool = True,
        rewrites: Sequence[str] = (),
        prefer: Where | Filter | Sequence[Where | Filter] | None = None,
        entities: Mapping[str, Sequence[str]] | None = None,
        tags: Sequence[str] = (),
        as_of: datetime | None = None,
        about: object = None,
        context: Context = Context(),
    ) -> SearchResult:
        """The best hits for the words, or for a precomputed vector of shape (dimensions,), each explained.

        ``"a phrase"`` must stand in every hit, ``-word`` in none, and ``begin*`` stands for every word that begins so;
        ``syntax=False`` takes the query as it stands (see ``retrieval.domain.search.query``).
        ``where`` is a mapping such as ``{"priority": "High"}`` (see ``retrieval.domain.search.filters``); ``limit`` is
        1 to 1000; ``legs`` names the legs to use; ``profile`` replaces the collection's for this call; ``group_by``
        names a field, and of its values each has its best hit only; ``rewrites`` are other wordings, for each of which
        every leg runs once more; ``prefer`` is a filter too: what it lets through ranks higher, for every leg runs once
        more within it, and nothing is left out; of up to 4 in a list, the most preferred first, the second's rankings
        weigh half, the third's a third; ``entities``, at most 100, are what the question is about, by type;
        ``tags``, at most 100, are that by tag, as stored; ``as_of`` is the moment that signals take as now;
        ``about``, shape (dimensions,), tells the question's cluster where ``vector`` does not; ``context``
        is the situation that the search is recorded with.
        Words may be missing where the profile has a leg that needs none. Raises ``EmptyQueryError``,
        ``InvalidLimitError``, ``InvalidFilterError``, ``UnknownFieldError``, ``InvalidVectorError``,
        ``WrongDimensionError``, ``InvalidRequestError``.
        """
        checked_context(context)
        stored = await self._fresh()
        chosen = self._chosen(stored, legs, profile)
        condition = await parsed_filter(where, self._bounds)
        each = () if prefer is None else prefer if isinstance(prefer, list | tuple) else (prefer,)
        preferred = tuple([await parsed_filter(one, self._bounds) for one in each[: MAX_PREFERRED + 1]])

        def checked() -> SearchRequest:
            return checked_request(
                query,
                vector=vector,
                limit=limit,
                condition=condition,
                profile=chosen,
                group_by=group_by,
                syntax=syntax,
                rewrites=rewrites,
                preferred=preferred,
                entities=entities,
                tags=tags,
                as_of=as_of,
                needs_question=(chosen or stored.profile).needs_question,
                bounds=self._bounds,
            )

        request = await aside(checked, is_long=_is_long(query, rewrites))
        request = request if about is None else replace(request, about=checked_query_vector(about, stored, "about"))
        try:
            result = await self._searcher(stored).search(request, context)
        except UnknownFieldError:
            # The field may have come with items that another process added a moment ago.
            result = await self._searcher(await self.refresh()).search(request, context)
        return result if result.hits else await self._explained(result, request.condition)

    @told_if_gone
    async def search_each(
        self,
        queries: Sequence[str],
        *,
        vectors: Sequence[object] | None = None,
        where: Where | Filter | None = None,
        limit: int = 10,
        legs: Sequence[str] | None = None,
        profile: Profile | None = None,
        group_by: str | None = None,
        syntax: bool = True,
        context: Context = Context(),
    ) -> list[SearchResult]:
        """The best hits for each of many queries, as ``search`` gives them, for little more than the price of one.

        The words are embedded in one call and the candidates of all come in one round trip. ``vectors``: precomputed
        ones, shape (number of queries, dimensions), one a query. Raises what ``search`` raises, naming the query, and
        ``InvalidRequestError`` for more than 1000 of them, or more than 10,000 hits wanted of all together.
        """
        checked_context(context)
        stored = await self._fresh()
        condition, chosen = await parsed_filter(where, self._bounds), self._chosen(stored, legs, profile)

        def checked() -> list[SearchRequest]:
            return checked_requests(
                queries,
                vectors=vectors,
                limit=limit,
                condition=condition,
                profile=chosen,
                group_by=group_by,
                syntax=syntax,
                bounds=self._bounds,
            )

        requests = await aside(checked, is_long=_is_long(None, queries))
        try:
            return await self._searcher(stored).search_each(requests, context)
        except UnknownFieldError:
            return await self._searcher(await self.refresh()).search_each(requests, context)

    async def interleave(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> SearchResult:
        """The hits of two profiles, mixed so that feedback tells which of them is better; recorded before it answers.

        ``profiles``: two by name, such as ``{"now": collection.profile, "candidate": other}``; the names are what
        ``retrieval compare --interleaved`` calls them. ``limit`` is 1 to 20. Neither explores meanwhile. A record that
        cannot be stored costs a note. Raises what ``search`` raises, ``InvalidRequestError`` for other than two.
        """
        from retrieval.engine.interleave import Interleaver

        wanted = await parsed_filter(where, self._bounds)
        request = checked_request(query, limit=limit, condition=wanted, syntax=syntax, bounds=self._bounds)

        async def ask(profile: Profile) -> SearchResult:
            return await self.search(query, where=where, limit=limit, profile=profile, syntax=syntax, context=context)

        stored = await self._fresh()
        interleaver = Interleaver(self._database, self._tenant_id, stored.collection_id, self._chance, self._wall_clock)
        return await interleaver.interleave(request, profiles, ask, context)

    async def _explained(self, result: SearchResult, condition: Filter | None) -> SearchResult:
        """The answer without hits, and why there are none; of a search that nobody asked for nobody wants to know."""
        if self._recorder is None:
            return result
        from retrieval.engine.no_hits import reasons

        stored = await self._fresh()
        known = await reasons(self, condition, documents=stored.documents, types=stored.attributes)
        return replace(result, why_no_hits=known)

    def _searcher(self, stored: StoredCollection) -> Searcher:
        return Searcher(
            database=self._database,
            tenant_id=self._tenant_id,
            collection=stored,
            embedder=self._embedder,
            sampler=self._sampler,
            recorder=self._recorder,
            decider=self._decider,
            observer=self._observer,
            chance=self._chance,
            clock=self._clock,
            wall_clock=self._wall_clock,
        )

    def unrecorded(self) -> Collection:
        """The same collection, whose searches are not recorded: for trials and measurements, which nobody asked for.

        They explore nothing either: nothing could be learned from it.
        """
        same = copy(self)
        same._sampler = same._recorder = same._accesses = same._observer = None  # noqa: SLF001 - of the same class
        return same

    @told_if_gone
    async def leg_rankings(
        self,
        query: str,
        *,
        where: Where | Filter | None = None,
        legs: Sequence[str] = ("dense", "lexical"),
        depth: int = DEPTH,
    ) -> dict[str, list[Candidate]]:
        """The ``depth`` candidates of each leg before fusion, best first, for the query as it stands.

        Dense and lexical leg together: behind its own, each has those that the other brought, with their scores in it.
        """
        stored = await self._fresh()
        profile = replace(stored.profile.only(tuple(map(leg_name, legs))), depth=depth)
        request = checked_request(
            query,
            limit=depth,
            condition=await parsed_filter(where, self._bounds),
            profile=profile,
            syntax=False,
            bounds=self._bounds,
        )
        return await self._searcher(stored).leg_rankings(request)

    async def count_accesses(self, item_ids: Sequence[str]) -> None:
        """Count one access of each of these memories; soon, and many together, so that nobody waits for it.

        ``platform.accesses_counted()`` returns once they are in the database. An item that is no memory has no count,
        and ``unrecorded`` collections count nothing.
        """
        keys = checked_item_ids(item_ids)
        if self._accesses is not None:
            self._accesses.count(self._stored.collection_id, keys, self._now)

    @told_if_gone
    async def delete(self, item_ids: Sequence[str]) -> int:
        """Remove items with their terms and vectors; gives how many there were.

        Searches of this platform that wait to be recorded are recorded first: afterwards they could not name the items.
        """
        keys = checked_item_ids(item_ids)
        if self._recorder is not None:
            await self._recorder.recorded()
        collection_id = (await self._fresh()).collection_id
        deleted, settled = await remove_items(self._database, self._tenant_id, collection_id, sorted(set(keys)))
        await self._settle(settled, deleted)
        return deleted

    @told_if_gone
    async def set_status(self, item_id: str, status: str, *, was: str | None = None) -> bool:
        """Give an item another status, and whether that was done: only if it has the status ``was`` (None: any other).

        Nothing else of it changes, and of those who do the same at once, one does. An ``archived`` one is kept and not
        found. Raises ``InvalidItemError`` for a status that no item can have.
        """
        from retrieval.adapters.store.items.items import change_status

        [key] = checked_item_ids([item_id])
        for one in (status,) if was is None else (status, was):
            check_key("status", one, key)
        writer = await self._writer()
        async with self._database.transaction(self._tenant_id) as connection:
            changed = await change_status(connection, self._stored.collection_id, key, status, was=was)
        if changed is not None and ARCHIVED in (changed[0].status, status):
            await writer.embed([changed[1]] if status != ARCHIVED else [])
            await self._settle(changed[2], 1)
        return changed is not None

    def _chosen(self, stored: StoredCollection, legs: Sequence[str] | None, profile: Profile | None) -> Profile | None:
        if profile is not None and not isinstance(profile, Profile):
            raise InvalidRequestError(
                f"profile is a {type(profile).__name__}; it must be a Profile, which Profile.from_dict makes of "
                "plain values"
            )
        if legs is None:
            return profile
        if isinstance(legs, str):
            raise InvalidRequestError(f"legs must be a list of names such as ['dense', 'lexical'], not {legs!r:.80}")
        if len(legs) > len(LegName):
            raise InvalidRequestError(f"{len(legs)} legs; there are {len(LegName)}, name each once")
        whole, names = profile or stored.profile, tuple(map(leg_name, legs))
        # Callers name the same legs again and again, and a profile is checked anew whenever it is made.
        if self._narrowed is None or self._narrowed[0] is not whole or self._narrowed[1] != names:
            self._narrowed = whole, names, whole.only(names)
        return self._narrowed[2]


def _is_long(query: object, more: object) -> bool:
    """Whether it takes long to read the query and the others."""
    texts = [one for one in (query, *(more if isinstance(more, list | tuple) else ())) if isinstance(one, str)]
    return len(texts) >= LONG or sum(map(len, texts)) >= LONG_TEXT
