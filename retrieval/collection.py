"""A collection: search it, add items to it, change them, read them, learn from feedback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from retrieval.domain.items.embedding import TextRole
from retrieval.domain.learning.context import Context
from retrieval.engine import collection_search
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import checked_item_ids

if TYPE_CHECKING:
    from uuid import UUID

    from retrieval.adapters.readers import InputLine
    from retrieval.adapters.store.items.collections import StoredCollection
    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.domain.items.collection import CollectionInfo, Neighbours, ValueCount
    from retrieval.domain.items.embedding import EmbeddingSpace, Vector, Vectors
    from retrieval.domain.items.item import Item, StoredItem
    from retrieval.domain.learning.arm import Expectation, Standing
    from retrieval.domain.records.recorded import RecordedAnswer, RetrievalSummary
    from retrieval.domain.records.slate import ShownItem
    from retrieval.domain.search.filters import Filter, Where
    from retrieval.domain.search.hit import SearchResult
    from retrieval.domain.search.preview import Preview
    from retrieval.domain.search.profile import Profile, StoredProfile
    from retrieval.services.add import AddedEach, AddReport
    from retrieval.services.change import ChangeReport, Decide
    from retrieval.services.ingest import IngestReport, Progress, Rejected
    from retrieval.services.workplace import Workplace


class Collection:
    """A named corpus of one tenant. ``Platform.collection`` gives it."""

    def __init__(self, handle: CollectionHandle, workplace: Workplace) -> None:
        self._handle = handle
        self._workplace = workplace

    def __repr__(self) -> str:
        return f"<Collection {self.name!r}: {self._handle.stored.documents} items>"

    def _repr_html_(self) -> str:
        from retrieval.domain.notebook import facts_html

        # As last read: what shows a value must not wait for a database.
        stored = self._handle.stored
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

    # Search.

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
        return await collection_search.search(
            self._handle,
            query,
            where=where,
            legs=legs,
            profile=profile,
            prefer=prefer,
            about=about,
            context=context,
            vector=vector,
            limit=limit,
            group_by=group_by,
            syntax=syntax,
            rewrites=rewrites,
            entities=entities,
            tags=tags,
            as_of=as_of,
        )

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
        return await collection_search.search_each(
            self._handle,
            queries,
            where=where,
            legs=legs,
            profile=profile,
            context=context,
            vectors=vectors,
            limit=limit,
            group_by=group_by,
            syntax=syntax,
        )

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
        return await collection_search.interleave(
            self._handle, query, profiles=profiles, where=where, context=context, limit=limit, syntax=syntax
        )

    async def preview(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> Preview:
        """What each of 1 to 10 profiles would show for the query; what entered, left and moved against the first.

        ``profiles`` are by name, such as ``{"now": collection.profile, "candidate": other}``. Each is a search, which
        is not recorded and explores nothing. Raises what ``search`` raises.
        """
        return await collection_search.preview(
            self._handle, query, profiles=profiles, where=where, context=context, limit=limit, syntax=syntax
        )

    def unrecorded(self) -> Collection:
        """The same collection, whose searches are not recorded: for trials and measurements, which nobody asked for.

        They explore nothing either: nothing could be learned from it.
        """
        return Collection(self._handle.unrecorded(), self._workplace)

    # Add.

    async def add(self, items: Iterable[Item | Mapping[str, Any]], *, embeddings: object = None) -> AddReport:
        """Store items, given as ``Item`` values or as dictionaries in the ingest format; unchanged ones cost nothing.

        Of items with the same key the last counts. ``embeddings``: precomputed vectors, shape (number of items,
        dimensions), used instead of the embedder. Nothing is stored when an item or a given vector is refused:
        ``InvalidItemError`` or ``InvalidVectorError`` with its key is raised. Many items are stored part by part:
        what interrupts the call leaves some of them stored, and the same call again stores the others. If the embedder
        fails or its vector for an item cannot be used, the items are stored, ``report.pending`` counts those that wait,
        and ``report.notes`` names what was refused, and tells of items without title and text.
        """
        from retrieval.services.items import add

        return await add(self._handle, items, embeddings)

    async def add_each(self, items: Sequence[Item | Mapping[str, Any]], *, more: bool = False) -> AddedEach:
        """Store those of the items that can be, in one transaction, and tell of each what became of it.

        What is refused holds up no other: its outcome has the ``InvalidItemError``. Once this returns, the others are
        stored. With ``more`` another call follows at once, and the last one, which may be of no items, sees to indexes.
        """
        from retrieval.services.items import add_each

        return await add_each(self._handle, items, more=more)

    async def ingest(
        self,
        lines: Iterator[InputLine],
        *,
        rejected: Rejected | None = None,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Store a stream of lines (``retrieval.read_items`` makes one); see ``retrieval.services.ingest.ingest``."""
        from retrieval.services.items import ingest

        return await ingest(self._handle, lines, rejected=rejected, prune=prune, progress=progress)

    # Change.

    async def put(self, item: Item | Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Store one item, new or in place of the one of its id, and embed it; ``became`` tells what that made of it.

        ``version``: only if it is still in that version (as ``stored`` gives it), if it is there at all (``"*"``), or
        only if it is not (``""``). Else ``VersionConflictError`` is raised and nothing is changed; of those who put the
        same version at once, one does. Raises ``InvalidItemError``. An embedder that fails leaves the item pending.
        """
        from retrieval.services.items import put

        return await put(self._handle, item, version)

    async def patch(self, item_id: str, changes: Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Change parts of an item, by a JSON merge patch (RFC 7396) on what ``Item.as_dict`` gives; else as ``put``.

        ``{"title": "new", "attributes": {"level": None}}`` sets the title and takes an attribute away. Whatever others
        write meanwhile, no change is lost. Raises ``UnknownItemError`` where there is none of that id.
        """
        from retrieval.services.items import patch

        return await patch(self._handle, item_id, changes, version)

    async def change(self, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool = False) -> ChangeReport:
        """Let each of the items become what ``decide`` says, all of them or none, whatever other writers do meanwhile.

        ``decide`` is called with an id and the item that is stored under it, or None; it gives the item as it shall be,
        the same object to leave it, or None for no item. It may be called again, so it only decides. With
        ``keeps_time`` attributes alone can change, and ``updated_at`` stays: attributes that are put back have the
        item's former version again. Of those who make the same new item at once, the last counts. Raises
        ``InvalidItemError`` and what ``decide`` raises. An embedder that fails leaves items pending.
        """
        from retrieval.services.items import change

        return await change(self._handle, item_ids, decide, keeps_time=keeps_time)

    async def delete(self, item_ids: Sequence[str]) -> int:
        """Remove items with their terms and vectors; gives how many there were.

        Searches of this platform that wait to be recorded are recorded first: afterwards they could not name the items.
        """
        from retrieval.services.items import delete

        return await delete(self._handle, item_ids)

    async def remove(self, item_id: str, *, version: str | None = None) -> bool:
        """Remove one item with its terms and vectors, and whether it was there; ``version`` is as for ``put``.

        Else as ``delete``.
        """
        from retrieval.services.items import remove

        return await remove(self._handle, item_id, version)

    # Get.

    async def get(self, item_ids: Sequence[str]) -> dict[str, Item]:
        """The items of those ids that exist, by item id."""
        from retrieval.adapters.store.items.items import read_items

        keys = checked_item_ids(item_ids)
        return await read_items(*await self._handle.place(), keys)

    async def stored(self, item_ids: Sequence[str]) -> dict[str, StoredItem]:
        """The items of those ids that exist, each with its version and times, by item id."""
        from retrieval.adapters.store.items.items import read_stored

        keys = checked_item_ids(item_ids)
        return await read_stored(*await self._handle.place(), keys)

    async def page(self, where: Where | Filter | None = None, *, after: str = "", limit: int = 100) -> list[StoredItem]:
        """The next items that the filter lets through, in order of item id: those whose id comes after ``after``.

        ``limit`` is 1 to 1000; fewer items mean that these are the last. Archived ones as for ``scan``. Raises
        ``InvalidLimitError``, and the errors of filters.
        """
        from retrieval.engine.reading import page

        return await page(self._handle, where, after=after, limit=limit)

    def scan(self, where: Where | Filter | None = None, *, batch: int = 500) -> AsyncIterator[Item]:
        """Every item that the filter lets through, in order of item id, read page by page of ``batch`` items.

        Archived items are among them only where the filter names their status, as ``{"status": "archived"}`` does.
        Items that are added or removed meanwhile may or may not be. Raises ``InvalidFilterError``,
        ``UnknownFieldError``, and ``InvalidRequestError`` for a batch outside 1 to 10,000.
        """
        from retrieval.engine.reading import scan

        return scan(self._handle, where, batch=batch)

    async def value_counts(self, field: str, *, where: Where | Filter | None = None) -> list[ValueCount]:
        """How many items have each value of the field, the most frequent first; archived ones do not count.

        ``field`` is an attribute, named as in a filter, ``tags`` (each tag of an item counts), ``kind``, ``status`` or
        ``source``; ``where`` says of which items. Raises ``InvalidRequestError`` for another field,
        ``UnknownFieldError`` for an attribute that no item has, and the errors of filters.
        """
        from retrieval.engine.reading import value_counts

        return await value_counts(self._handle, field, where=where)

    async def info(self) -> CollectionInfo:
        """The collection at a glance, read now."""
        from retrieval.engine.reading import info

        return await info(self._handle)

    async def space(self) -> EmbeddingSpace | None:
        """The active embedding space; None: lexical search only."""
        stored = (await self._handle.fresh()).space
        return stored.space if stored else None

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """The items' vectors as searches compare them, by item id: shape (dimensions,), float32, unit length.

        Those that have none, because they wait for it or are archived, are missing; without a space all are.
        """
        from retrieval.engine.reading import embeddings

        return await embeddings(self._handle, item_ids)

    async def vectors_of(self, queries: Sequence[str], *, role: TextRole = TextRole.QUERY) -> Vectors:
        """The vectors that searches for these words look for, shape (len(queries), dimensions), float32, unit length.

        With ``role=TextRole.DOCUMENT`` those that items of these texts have, which some models embed otherwise.

        The words are taken as they stand. Those that were not embedded before are embedded in one call. Raises the
        embedder's errors, ``EmptyQueryError`` for a query without words, and ``InvalidRequestError`` for a collection
        without an embedding space, or whose embedder is not configured.
        """
        from retrieval.engine.reading import vectors_of

        return await vectors_of(self._handle, queries, role)

    # Profiles.

    @property
    def profile(self) -> Profile:
        """The active profile, as last read."""
        return self._handle.stored.profile

    async def profiles(self, *, limit: int = 100) -> list[StoredProfile]:
        """The versions of the profile, the newest first. Raises ``InvalidLimitError`` outside 1 to 1000."""
        from retrieval.engine.profiles import profiles

        return await profiles(self._handle, limit)

    async def stored_profile(self, version: int | None = None) -> StoredProfile:
        """That version of the profile, or the active one. Raises ``NotFoundError`` for one that is not there."""
        from retrieval.engine.profiles import stored_profile

        return await stored_profile(self._handle, version)

    async def set_profile(self, profile: Profile, *, note: str = "") -> int:
        """Store the profile as a new version and search with it from now on; gives the version.

        Raises ``InvalidRequestError`` for a note of more than 10,000 characters, or that cannot be stored.
        """
        from retrieval.engine.profiles import set_profile

        return await set_profile(self._handle, profile, note)

    async def use_profile(self, version: int) -> None:
        """Search with that version from now on. Raises ``NotFoundError`` for one that is not there."""
        from retrieval.engine.profiles import use_profile

        await use_profile(self._handle, version)

    # Records and feedback.

    async def retrievals(
        self, *, limit: int = 20, before: UUID | str | None = None, session: str = ""
    ) -> list[RetrievalSummary]:
        """The recorded searches, the newest first; ``platform.retrieval`` has all about one.

        ``before``: the identifier of the last one of the page before; ``session``: of that session alone. Searches of
        this platform that wait to be recorded are recorded first. Raises ``InvalidLimitError`` for a limit outside 1 to
        1000, ``InvalidRequestError`` for what is no identifier and no session's name.
        """
        from retrieval.engine.reading import retrievals

        return await retrievals(self._handle, limit=limit, before=before, session=session)

    async def record_answer(
        self,
        query: str,
        shown: Sequence[ShownItem],
        *,
        origin: str,
        retrieval_time_ms: float,
        context: Context = Context(),
        vector: object = None,
        about: object = None,
        notes: Sequence[str] = (),
    ) -> UUID | None:
        """Record an answer that an application put together itself, as a search is recorded: behind the call.

        ``shown``: what was shown, in that order; ``origin`` names what put it together; ``vector``, shape
        (dimensions,), is what it looked for, where that was not the words themselves, and ``about`` what tells the
        question's cluster, where that vector does not (None: it does). Gives the identifier, under which
        feedback counts as for a search, in the buckets of the ``context``, and of the question's cluster where the
        vector was given or this process has that of the words at hand: nothing is embedded for it. None where it is
        not recorded: by the profile, for want of room, or in ``unrecorded`` collections. While the database is away,
        records wait as those of searches do. Raises ``InvalidRequestError`` and ``InvalidVectorError``.
        """
        from retrieval.engine.answers import record_answer

        return await record_answer(
            self._handle,
            query,
            shown,
            origin=origin,
            retrieval_time_ms=retrieval_time_ms,
            context=context,
            vector=vector,
            about=about,
            notes=notes,
        )

    async def answers_of(self, session: str, *, origin: str | None = None, limit: int = 20) -> list[RecordedAnswer]:
        """What a session was answered, the newest first: searches, and answers that an application put together.

        ``origin``: of these alone that were recorded with it; empty: searches. Answers of this platform that wait to be
        recorded are recorded first. Raises ``InvalidRequestError`` for an empty session, ``InvalidLimitError`` for a
        limit outside 1 to 1000.
        """
        from retrieval.engine.answers import answers_of

        return await answers_of(self._handle, session, origin=origin, limit=limit)

    async def count_accesses(self, item_ids: Sequence[str]) -> None:
        """Count one access of each of these memories; soon, and many together, so that nobody waits for it.

        ``platform.accesses_counted()`` returns once they are in the database. An item that is no memory has no count,
        and ``unrecorded`` collections count nothing.
        """
        keys, handle = checked_item_ids(item_ids), self._handle
        if handle.is_recorded:
            handle.parts.accesses.count(handle.stored.collection_id, keys, handle.now)

    async def set_half_life(self, days: float) -> None:
        """Let feedback lose half its weight in so many days, and compute the statistics anew by it; 1/24 to 36500."""
        from retrieval.engine.learning import set_half_life

        await set_half_life(self._handle, days)

    async def set_daily_cap(self, events: int) -> None:
        """Let so many events of one actor count in a day (UTC), 1 to 1,000,000; what is stored stays as it is."""
        from retrieval.engine.learning import set_daily_cap

        await set_daily_cap(self._handle, events)

    # Learning.

    async def standings(self, item_ids: Sequence[str]) -> dict[str, Standing]:
        """How each of those items that exist has fared so far, by item id: raw counts over all contexts."""
        from retrieval.adapters.store.learning.standings import read_standings

        keys = checked_item_ids(item_ids)
        return await read_standings(*await self._handle.place(), keys)

    async def expectations(
        self,
        item_ids: Sequence[str],
        *,
        context: Context = Context(),
        vector: object = None,
        query: str | None = None,
        relevance: Mapping[str, float] | None = None,
    ) -> dict[str, Expectation]:
        """What each item is expected to earn in the context, by item id; also one that nothing is known of.

        With a model in use (``is_trained``) it is the model's prediction, in the cluster of the question too where its
        ``vector``, shape (dimensions,), or its words are given; ``relevance``, 0 to 1 by item id, is used by logistic
        models. Without a model it is Beta(successes + 1, failures + 1) of the item's raw counts in all contexts.
        Raises the embedder's errors for words, ``InvalidVectorError``, and ``InvalidRequestError``.
        """
        from retrieval.engine.learning import expectations

        return await expectations(
            self._handle, item_ids, context=context, vector=vector, query=query, relevance=relevance
        )

    async def is_trained(self) -> bool:
        """Whether what was learned counts in the searches of the collection's profile: a model is in use."""
        from retrieval.engine.learning import model_in_use

        return await model_in_use(self._handle, await self._handle.fresh()) is not None

    async def count_verdicts(self, *, domain: str | None = None, at_most: int | None = None) -> int:
        """How many verdicts on the collection's items count: in all contexts, or in those of a domain.

        ``at_most``, at least 1: count no further, where it is enough to know that there are so many; the statistics of
        all items are read otherwise. Raises ``InvalidRequestError``.
        """
        from retrieval.engine.learning import count_verdicts

        return await count_verdicts(self._handle, domain=domain, at_most=at_most)

    async def learn(self) -> dict[str, Any]:
        """Run the jobs ``clusters`` and ``learn`` for this collection now; gives what ``learn`` did.

        ``published`` says whether the model that was fitted is in use from now on, ``reason`` why, ``verdicts`` from
        how many it was, ``clusters`` how many clusters there are. Raises ``RetrievalError`` where a job failed.
        """
        # All jobs come with it, and a process that only searches should not wait for them.
        from retrieval.jobs.run import learn_now

        done = await learn_now(self._workplace, self._handle.tenant_id, self.refresh)
        await self.refresh()
        return done

    async def models(self) -> list[StoredModel]:
        """The models of the learned reward that were fitted, the newest first; the latest twenty."""
        from retrieval.adapters.store.learning.models import latest_models

        return await latest_models(*await self._handle.place())

    async def use_model(self, version: int | None) -> None:
        """Search with that model and no other; 0: with none. None: with the latest, and with better ones to come.

        Raises ``InvalidRequestError`` for a version that is not there, or that was never good enough to be used.
        """
        from retrieval.engine.learning import use_model

        await use_model(self._handle, version)

    # Upkeep.

    @property
    def name(self) -> str:
        """The collection's name, unique within its tenant."""
        return self._handle.stored.name

    async def make_filterable(self, attributes: Mapping[str, str]) -> None:
        """Declare attributes as filterable, each with its type: ``text``, ``number``, ``boolean`` or ``time``.

        They get an index, the stored items too, while writers wait; filters then compare them by that type. What is
        declared so already costs nothing. Raises ``InvalidRequestError`` for a name or a type that cannot be, and for
        an attribute that is declared with another type.
        """
        from retrieval.services.collections import make_filterable

        await make_filterable(self._handle, attributes)

    async def make_unfilterable(self, names: Sequence[str]) -> None:
        """Take back what ``make_filterable`` did; the items keep their attributes, and filters still work, slower."""
        from retrieval.services.collections import make_unfilterable

        await make_unfilterable(self._handle, names)

    async def set_neighbours(self, neighbours: Neighbours | None) -> int:
        """Index the items together with their neighbours in a sequence from now on, or each alone (None).

        The stored items are indexed anew, by their words and by the vectors that they have, while searches and writes
        go on; gives how many. Interrupted, the same call, or the job ``neighbours``, goes on from there. What is set
        already costs nothing. Raises ``InvalidRequestError`` for anything else than ``Neighbours`` or None.
        """
        from retrieval.services.collections import set_neighbours

        return await set_neighbours(self._handle, neighbours)

    async def refresh(self, *, older_than_seconds: float = 0.0) -> StoredCollection:
        """Read the collection's profile, space and size again, if they were read longer ago than that.

        Of a collection of this name that was made anew, or has another space by now, the handle is from then on.
        Raises ``UnknownCollectionError`` where there is none.
        """
        return await self._handle.refresh(older_than_seconds=older_than_seconds)


def handle_of(collection: Collection) -> CollectionHandle:
    """What the calls about the collection work with: for the platform's own parts."""
    return collection._handle  # noqa: SLF001 - of this module's class
