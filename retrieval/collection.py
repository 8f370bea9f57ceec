"""A collection: search it, add items to it, change them, read them, learn from feedback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from retrieval.adapters.store.items.items import read_items, read_stored
from retrieval.adapters.store.learning.feedback import read_standings
from retrieval.adapters.store.replicas import reading_after
from retrieval.domain.checks import checks_arguments
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.items.embedding import TextRole
from retrieval.domain.lazy import LazyModule
from retrieval.domain.learning.context import Context
from retrieval.domain.notebook import facts_html
from retrieval.engine import collection_search, reading
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import checked_item_ids
from retrieval.services.collections import make_filterable, set_neighbours

if TYPE_CHECKING:
    from uuid import UUID

    from retrieval.adapters.readers import InputLine
    from retrieval.adapters.readers.documents import RawDocument
    from retrieval.adapters.store.items.collections import StoredCollection
    from retrieval.adapters.store.learning import models as stored_models
    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.domain.items.collection import CollectionInfo, Neighbours, ValueCount
    from retrieval.domain.items.embedding import EmbeddingSpace, Vector, Vectors
    from retrieval.domain.items.item import Item, StoredItem
    from retrieval.domain.items.passages import Passages
    from retrieval.domain.learning.arm import Expectation, Standing
    from retrieval.domain.records.recorded import RecordedAnswer, RetrievalSummary
    from retrieval.domain.records.slate import ShownItem
    from retrieval.domain.search.filters import Filter, Where
    from retrieval.domain.search.hit import SearchResult
    from retrieval.domain.search.preview import Preview
    from retrieval.domain.search.profile import Profile, StoredProfile
    from retrieval.domain.search.spelling import Completions
    from retrieval.engine import answers, interleave, learning, profiles
    from retrieval.jobs import run as job_runs
    from retrieval.services import calibrate, stored_documents
    from retrieval.services import documents as chunked
    from retrieval.services import items as writing
    from retrieval.services.add import AddReport
    from retrieval.services.calibrate import CalibrationReport
    from retrieval.services.change import ChangeReport, Decide
    from retrieval.services.documents import DocumentProgress, DocumentsReport, Paths
    from retrieval.services.ingest import IngestReport, Progress, Rejected
    from retrieval.services.workplace import Workplace
else:
    stored_models = LazyModule("retrieval.adapters.store.learning.models")
    answers, interleave, learning, profiles = (
        LazyModule(f"retrieval.engine.{name}") for name in ("answers", "interleave", "learning", "profiles")
    )
    calibrate, chunked, stored_documents, writing = (
        LazyModule(f"retrieval.services.{name}") for name in ("calibrate", "documents", "stored_documents", "items")
    )
    job_runs = LazyModule("retrieval.jobs.run")  # a process that only searches needs no jobs


@checks_arguments
class Collection:
    """A named corpus of one tenant; ``Platform.collection`` returns it."""

    def __init__(self, handle: CollectionHandle, workplace: Workplace) -> None:
        self._handle = handle
        self._workplace = workplace

    def __repr__(self) -> str:
        return f"<Collection {self.name!r}: {self._handle.stored.documents} items>"

    def _repr_html_(self) -> str:
        # As last read: displaying a value must not wait for a database.
        stored = self._handle.stored
        facts = {
            "items": f"{stored.documents:,}",
            "embedding space": stored.space.space.name if stored.space else "none: words alone",
            "language": stored.text_search_config,
            "profile": f"version {stored.profile_version}, legs {', '.join(stored.profile.legs)}",
            "index": f"HNSW{', quantised' if stored.ann_index.is_quantised else ''}"
            if stored.ann_index
            else "none: every search compares all",
            "filterable": ", ".join(f"{name} ({kind.value})" for name, kind in stored.filterable),
            "model": stored.model_version or None,
        }
        return facts_html(f"collection {self.name}", facts.items())

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
        min_score: float | None = None,
        min_relevance: float | None = None,
        typos: bool = False,
        snippet: int | None = None,
        facets: Sequence[str] = (),
        after: str | None = None,
        context: Context = Context(),
        after_write: str | None = None,
    ) -> SearchResult:
        """Search by words, or by a precomputed vector, and return the best hits, each with its explanation.

        - ``query``: every hit contains ``"a phrase"``, and none ``-word``; ``begin*`` matches every word with that
          prefix; ``syntax=False`` searches for the text literally (see ``retrieval.domain.search.query``). It may be
          missing if a vector is given, or if the profile has a leg that needs no words.
        - ``vector``: a precomputed query vector, shape (dimensions,), instead of that of the words.
        - ``where``: a filter such as ``{"priority": "High"}`` (see ``retrieval.domain.search.filters``).
        - ``limit``: the number of hits, 1 to 1000.
        - ``legs``: the names of the legs to use; ``profile``: replaces the collection's profile for this call.
        - ``group_by``: a field; only the best hit of the items with the same value is shown.
        - ``rewrites``: other wordings of the query, at most 10; every leg runs once more for each.
        - ``prefer``: a filter; items that pass it rank higher, and no item is left out. Every leg runs once more with
          it. In a list of up to 4, the first weighs most: the second's rankings weigh a half, the third's a third.
        - ``entities``: the entities of the question, by type, at most 100; ``tags``: its tags, at most 100.
        - ``as_of``: the reference time of signals.
        - ``about``: a vector, shape (dimensions,), that determines the question's cluster in place of ``vector``.
        - ``min_score``: hits of a lower score are left out; scores are comparable within one search only.
        - ``min_relevance``: hits with a lower probability of relevance are left out, 0 to 1; needs a calibration, which
          the local model has (see ``calibrate``). If no hit is left, ``why_no_hits`` says so.
        - ``typos``: whether words of four letters or more that no item contains are replaced by the most similar words
          of items, or by words that begin with them; ``notes`` list them, and the corrected query is searched and
          recorded.
        - ``snippet``: the characters, 20 to 2000, of a part of each hit's text with the query's words marked
          (``hit.snippet``); None: no snippet.
        - ``facets``: fields, at most 10, whose values are counted among all items that pass the filter and the query's
          phrases and exclusions: the 50 most frequent, of 100,000 items at most (``result.facets``).
        - ``after``: requests pages of ``limit`` hits: ``""`` for the first, then ``result.next`` of the previous page,
          with the same question; at most 1000 hits on all pages together.
        - ``context``: the situation that the search is recorded with.
        - ``after_write``: a token, ``report.token`` or ``platform.write_token()``; the search reads at least the state
          of the token, also from a replica.

        Raises ``EmptyQueryError``, ``InvalidLimitError``, ``InvalidFilterError``, ``UnknownFieldError``,
        ``InvalidVectorError``, ``WrongDimensionError``, ``InvalidRequestError``.
        """
        with reading_after(after_write):
            return await collection_search.search(
                self._handle,
                query,
                where=where,
                legs=legs,
                profile=profile,
                prefer=prefer,
                about=about,
                context=context,
                typos=typos,
                snippet=snippet,
                facets=facets,
                after=after,
                vector=vector,
                limit=limit,
                group_by=group_by,
                syntax=syntax,
                rewrites=rewrites,
                entities=entities,
                tags=tags,
                as_of=as_of,
                min_score=min_score,
                min_relevance=min_relevance,
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
        min_score: float | None = None,
        min_relevance: float | None = None,
        context: Context = Context(),
        after_write: str | None = None,
    ) -> list[SearchResult]:
        """Search for many queries at once; return the result of ``search`` for each, in their order.

        All queries are embedded in one call, and all candidates are read in one round trip. ``vectors``: precomputed
        ones, shape (number of queries, dimensions), one for each query. The other arguments are as for ``search``.
        Raises what ``search`` raises, naming the query, and ``InvalidRequestError`` for more than 1000 queries, or more
        than 10,000 hits of all together.
        """
        with reading_after(after_write):
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
                min_score=min_score,
                min_relevance=min_relevance,
            )

    async def interleave(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        min_score: float | None = None,
        min_relevance: float | None = None,
        context: Context = Context(),
    ) -> SearchResult:
        """Mix the hits of two profiles, so that feedback shows which is better; record the search before returning.

        ``profiles``: two by name, such as ``{"now": collection.profile, "candidate": other}``;
        ``retrieval compare --interleaved`` calls them by these names. ``limit`` is 1 to 20. Neither profile explores.
        If the record cannot be stored, ``notes`` say so. Raises what ``search`` raises, and
        ``InvalidRequestError`` for a number of profiles other than two.
        """
        return await interleave.interleave(
            self._handle,
            query,
            profiles=profiles,
            where=where,
            context=context,
            limit=limit,
            syntax=syntax,
            min_score=min_score,
            min_relevance=min_relevance,
        )

    async def preview(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        min_score: float | None = None,
        min_relevance: float | None = None,
        typos: bool = False,
        context: Context = Context(),
    ) -> Preview:
        """Search with each of 1 to 10 profiles; show which hits enter, leave and move relative to the first profile.

        ``profiles``: by name, such as ``{"now": collection.profile, "candidate": other}``. The searches are not
        recorded and explore nothing. ``typos`` is as for ``search``. Raises what ``search`` raises.
        """
        return await collection_search.preview(
            self._handle,
            query,
            profiles=profiles,
            where=where,
            context=context,
            limit=limit,
            syntax=syntax,
            min_score=min_score,
            min_relevance=min_relevance,
            typos=typos,
        )

    async def complete(
        self,
        text: str,
        *,
        where: Where | Filter | None = None,
        limit: int = 10,
        after_write: str | None = None,
    ) -> Completions:
        """Complete a text that is being typed: its last word, and the titles that contain that word.

        Both come from the 200 best items by the text's words among those that pass the filter. ``limit``, 1 to 100, is
        the maximum number of queries, and of titles. Nothing is embedded or recorded. Raises ``InvalidLimitError``,
        ``InvalidRequestError`` and the errors of filters.
        """
        with reading_after(after_write):
            return await collection_search.complete(self._handle, text, where=where, limit=limit)

    async def passages(
        self,
        query: str,
        *,
        max_tokens: int = 2000,
        around: int = 1,
        limit: int = 10,
        where: Where | Filter | None = None,
        min_score: float | None = None,
        min_relevance: float | None = None,
        count_tokens: Callable[[str], int] | None = None,
        context: Context = Context(),
        after_write: str | None = None,
    ) -> Passages:
        """Search, and return the best passages as text for a prompt of at most ``max_tokens`` tokens, at least 100.

        The ``limit`` best hits are included in order while they fit. The first that does not fit is cut to the
        remaining room, around the query's words (``passage.cut``). Any room then left is filled with up to ``around``
        chunks on each side of the hits, 0 to 10; consecutive chunks become one passage. ``min_score`` and
        ``min_relevance`` are as for ``search``: if no hit reaches them there are no passages, and ``notes`` say so.
        Tokens are counted by the collection's model, or estimated; ``count_tokens`` counts them as your language model
        does. Raises what ``search`` raises, and ``InvalidLimitError``.
        """
        stored_documents.check_passages(max_tokens, around, count_tokens)
        with reading_after(after_write):
            result = await self.search(
                query, limit=limit, where=where, min_score=min_score, min_relevance=min_relevance, context=context
            )
            return await stored_documents.passages(
                self._handle, query, result, max_tokens=max_tokens, around=around, count_tokens=count_tokens
            )

    def unrecorded(self) -> Collection:
        """The same collection without recording and exploration, for trials and measurements."""
        return Collection(self._handle.unrecorded(), self._workplace)

    # Add.

    async def add(
        self,
        items: Iterable[Item | Mapping[str, Any]],
        *,
        embeddings: object = None,
    ) -> AddReport:
        """Store items, ``Item`` values or dictionaries in the ingest format; unchanged ones cost nothing.

        If several items have the same key, the last counts. ``embeddings``: precomputed vectors, shape (number of
        items, dimensions), used instead of the embedder. If an item or a given vector is refused, nothing is stored:
        ``InvalidItemError`` or ``InvalidVectorError`` with its key is raised. Many items are stored in parts: after an
        interruption some of them are stored, and the same call stores the others. If the embedder fails or its vector
        for an item cannot be used, the items are stored, ``report.pending`` counts the items without a vector, and
        ``report.notes`` names refused vectors, and items without title and text.
        """
        return await writing.add(self._handle, items, embeddings)

    async def ingest(
        self,
        lines: Iterator[InputLine],
        *,
        rejected: Rejected | None = None,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Store the items of lines, as ``retrieval.read_items`` yields them; see ``retrieval.services.ingest``.

        ``rejected`` is called with each line without a valid item; without it such a line raises ``BadLineError``. If
        none of the first 500 items has a title or a text, ``InvalidItemError`` is raised, and nothing is stored.
        ``prune`` archives the items that are not in the stream. ``progress`` is called at the start, after each batch,
        and while texts are embedded.
        """
        return await writing.ingest(self._handle, lines, rejected=rejected, prune=prune, progress=progress)

    async def ingest_documents(
        self,
        paths: Paths,
        *,
        chunking: Chunking = Chunking(),
        name: str | None = None,
        prune: bool = False,
        progress: DocumentProgress | None = None,
    ) -> DocumentsReport:
        """Store the documents of files and folders as chunks; unchanged documents cost nothing.

        Markdown, HTML, PDF, DOCX, source code and plain text, by their file extensions. Of a changed document only new
        chunks are embedded. A document that cannot be read is listed in ``report.failed``; the others are stored.
        ``name`` replaces the folder's own name in the collection, for one folder. ``prune`` removes the documents that
        are no longer in the folders, which ``report.vanished`` lists; it removes nothing of a folder that is empty or
        could not be listed. Raises ``InvalidRequestError`` for a missing path, a file without a known extension, and a
        folder whose name the documents of another folder have.
        """
        return await chunked.ingest_documents(self._handle, paths, chunking, name=name, prune=prune, progress=progress)

    async def add_documents(
        self,
        documents: Iterable[RawDocument | Mapping[str, Any]],
        *,
        chunking: Chunking = Chunking(),
    ) -> DocumentsReport:
        """Store documents as chunks: ``{"id": "faq", "text": "# Questions ..."}``; unchanged documents cost nothing.

        ``format`` is ``markdown`` (the default), ``html``, ``text`` or ``code``; ``title`` and ``metadata`` are
        optional. Of a changed document only new chunks are embedded. A document that cannot be read is listed in
        ``report.failed``. Raises ``InvalidItemError`` for an invalid document, before anything is stored.
        """
        return await chunked.add_documents(self._handle, documents, chunking)

    # Change.

    async def put(self, item: Item | Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Store one item, new or replacing the one with its id, and embed it; ``became`` says which.

        ``version``: store it only if the stored item has that version (``stored`` returns it), if there is one
        (``"*"``), or if there is none (``""``). Otherwise ``VersionConflictError`` is raised and nothing changes; of
        several callers that put the same version at once, one succeeds. Raises ``InvalidItemError``. An embedder that
        fails leaves the item pending.
        """
        return await writing.put(self._handle, item, version)

    async def patch(self, item_id: str, changes: Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """Change parts of an item, by a JSON merge patch (RFC 7396) on ``Item.as_dict``; otherwise as ``put`` does.

        ``{"title": "new", "metadata": {"level": None}}`` sets the title and removes an attribute. No concurrent change
        of another caller is lost. Raises ``UnknownItemError`` if no item has that id.
        """
        return await writing.patch(self._handle, item_id, changes, version)

    async def change(self, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool = False) -> ChangeReport:
        """Change each of the items to the result of ``decide``, all or none, safely alongside other writers.

        ``decide`` is called with an id and the stored item, or None; it returns the new item, the same object to
        leave it unchanged, or None to remove it. It is called again if another caller creates one of the items
        meanwhile, so it must have no side effects. With ``keeps_time`` only attributes can change, and ``updated_at``
        stays: restored attributes restore the item's former version. Raises ``InvalidItemError`` and what ``decide``
        raises. An embedder that fails leaves items pending.
        """
        return await writing.change(self._handle, item_ids, decide, keeps_time=keeps_time)

    async def delete(self, item_ids: str | Sequence[str], *, version: str | None = None) -> int:
        """Delete one item, or several, with their terms and vectors; return the number of deleted items.

        ``version``, with one item alone, is as for ``put``. Searches of this platform that wait to be recorded are
        recorded first, because a record cannot name a deleted item.
        """
        return await writing.delete(self._handle, item_ids, version)

    async def remove(self, item_ids: str | Sequence[str], *, version: str | None = None) -> int:
        """Do the same as ``delete``."""
        return await self.delete(item_ids, version=version)

    async def delete_documents(self, document_ids: Sequence[str]) -> int:
        """Remove documents with all of their chunks, as ``delete`` does; return the number of removed documents."""
        return await chunked.delete_documents(self._handle, document_ids)

    # Get.

    async def get(self, item_ids: str | Sequence[str]) -> dict[str, Item]:
        """The existing items among those ids, or of one id, by item id: ``get("a")["a"]``."""
        keys = checked_item_ids(item_ids)
        return await read_items(await self._handle.place(), keys)

    async def stored(self, item_ids: str | Sequence[str]) -> dict[str, StoredItem]:
        """The existing items among those ids, or of one id, each with its version and times, by item id."""
        keys = checked_item_ids(item_ids)
        return await read_stored(await self._handle.place(), keys)

    async def page(self, where: Where | Filter | None = None, *, after: str = "", limit: int = 100) -> list[StoredItem]:
        """The next items that pass the filter, in order of item id: those whose id comes after ``after``.

        ``limit`` is 1 to 1000; a page of fewer items is the last. Archived items are included as in ``scan``. Raises
        ``InvalidLimitError``, and the errors of filters.
        """
        return await reading.page(self._handle, where, after=after, limit=limit)

    def scan(self, where: Where | Filter | None = None, *, batch: int = 500) -> AsyncIterator[Item]:
        """Every item that passes the filter, in order of item id, read in pages of ``batch`` items.

        Archived items are included only if the filter names their status, as ``{"status": "archived"}`` does. Items
        that are added or removed meanwhile may be included or not. Raises ``InvalidFilterError``,
        ``UnknownFieldError``, and ``InvalidRequestError`` for a batch outside 1 to 10,000.
        """
        return reading.scan(self._handle, where, batch=batch)

    async def value_counts(self, field: str, *, where: Where | Filter | None = None) -> list[ValueCount]:
        """Count the items of each value of the field, the most frequent first; archived items do not count.

        ``field`` is an attribute, named as in a filter, ``tags``, ``kind``, ``status`` or ``source``; each tag and
        each element of a list counts. ``where`` filters the items. Raises ``InvalidRequestError`` for another field,
        ``UnknownFieldError`` for an attribute that no item has, and the errors of filters.
        """
        return await reading.value_counts(self._handle, field, where=where)

    async def info(self) -> CollectionInfo:
        """An overview of the collection, read now."""
        return await reading.info(self._handle)

    async def space(self) -> EmbeddingSpace | None:
        """The active embedding space; None: lexical search only."""
        stored = (await self._handle.fresh()).space
        return stored.space if stored else None

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """The items' vectors as searches compare them, by item id: shape (dimensions,), float32, unit length.

        Items without a vector, because it is pending or they are archived, are missing; without a space, all items are
        missing.
        """
        return await reading.embeddings(self._handle, item_ids)

    async def vectors_of(self, queries: Sequence[str], *, role: TextRole = TextRole.QUERY) -> Vectors:
        """The query vectors of these texts, shape (len(queries), dimensions), float32, unit length.

        With ``role=TextRole.DOCUMENT``, the vectors of items with these texts; some models embed them differently.

        The texts are embedded unchanged, those without a cached vector in one call. Raises the embedder's errors,
        ``EmptyQueryError`` for a query without words, and ``InvalidRequestError`` for a collection without an embedding
        space, or whose embedder is not configured.
        """
        return await reading.vectors_of(self._handle, queries, role)

    # Profiles.

    @property
    def profile(self) -> Profile:
        """The active profile, as last read."""
        return self._handle.stored.profile

    async def profiles(self, *, limit: int = 100) -> list[StoredProfile]:
        """The versions of the profile, the newest first. Raises ``InvalidLimitError`` outside 1 to 1000."""
        return await profiles.profiles(self._handle, limit)

    async def stored_profile(self, version: int | None = None) -> StoredProfile:
        """Read a version of the profile, or the active one. Raises ``NotFoundError`` for a missing version."""
        return await profiles.stored_profile(self._handle, version)

    async def set_profile(self, profile: Profile, *, note: str = "", use: bool = True) -> int:
        """Store the profile as a new version, and activate it; return the version.

        ``use=False``: only store it, for a comparison with the active one first; ``use_profile`` activates it. Raises
        ``InvalidRequestError`` for a note of more than 10,000 characters, or that cannot be stored.
        """
        return await profiles.set_profile(self._handle, profile, note, use=use)

    async def use_profile(self, version: int) -> None:
        """Activate that version. Raises ``NotFoundError`` for a missing version."""
        await profiles.use_profile(self._handle, version)

    async def calibrate(
        self, relevant: Mapping[str, Sequence[str]] | None = None, *, apply: bool = True
    ) -> CalibrationReport:
        """Fit the calibration of ``Hit.relevance`` to judged queries, or to the feedback on recorded searches (None).

        ``relevant``: the ids of the items that answer each query, by the query's text; an empty list: none does. Other
        items count as not relevant. ``apply``: store the calibration in a new version of the profile, and use it. If a
        calibration is shipped, as for the local model, the fit starts from it, and a few queries help. Raises
        ``InvalidRequestError`` for fewer than 10 relevant or 10 irrelevant hits; with a shipped calibration, 3 of each
        suffice.
        """
        if relevant is None:
            return await calibrate.calibrate_by_feedback(self._handle, apply=apply)
        return await calibrate.calibrate(self._handle, *calibrate.judged_of(relevant), apply=apply)

    # Records and feedback.

    async def retrievals(
        self, *, limit: int = 20, before: UUID | str | None = None, session: str = ""
    ) -> list[RetrievalSummary]:
        """The recorded searches, the newest first; ``platform.retrieval`` reads one completely.

        ``before``: the last identifier of the previous page; ``session``: only searches of that session. Searches of
        this platform that wait to be recorded are recorded first. Raises ``InvalidLimitError`` for a limit outside 1 to
        1000, ``InvalidRequestError`` for an invalid identifier or session name.
        """
        return await reading.retrievals(self._handle, limit=limit, before=before, session=session)

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
        """Record an answer that an application composed itself; return the identifier for feedback on it.

        - ``shown``: the shown items, in order; an id that the collection does not hold is recorded by a pseudonym, as
          after the deletion of its item. ``origin``: the name of the part that composed the answer.
        - ``vector``: the query vector, shape (dimensions,), if it is not the vector of the words.
        - ``about``: a vector that determines the question's cluster in place of ``vector``.

        Feedback counts in the buckets of ``context``, and of the question's cluster if a vector was given or this
        process has the words' vector in memory; nothing is embedded. As for a search, the record is stored after the
        call, and waits during an outage of the database. Returns None if nothing is recorded: because of the profile or
        a full queue, and for ``unrecorded`` collections. Raises ``InvalidRequestError`` and ``InvalidVectorError``.
        """
        return await answers.record_answer(
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
        """The answers that a session received, the newest first: of searches, and of ``record_answer``.

        ``origin``: only answers recorded with that origin; empty: only searches. Answers of this platform that wait to
        be recorded are recorded first. Raises ``InvalidRequestError`` for an empty session, ``InvalidLimitError`` for a
        limit outside 1 to 1000.
        """
        return await answers.answers_of(self._handle, session, origin=origin, limit=limit)

    # Learning.

    async def set_learning(self, *, half_life_days: float | None = None, daily_cap: int | None = None) -> None:
        """Set the half-life of feedback, and the number of one actor's events that count in a day (UTC).

        - ``half_life_days``: the days in which feedback loses half its weight, 1/24 to 36500. The statistics are
          computed again.
        - ``daily_cap``: 1 to 1,000,000 events; stored events stay as they are.

        A missing argument leaves its setting unchanged. Raises ``InvalidRequestError`` for a number outside its range.
        """
        await learning.set_learning(self._handle, half_life_days=half_life_days, daily_cap=daily_cap)

    async def standings(self, item_ids: Sequence[str]) -> dict[str, Standing]:
        """The counts of verdicts on each of the existing items, by item id, over all contexts and without decay."""
        keys = checked_item_ids(item_ids)
        return await read_standings(await self._handle.place(), keys)

    async def expectations(
        self,
        item_ids: Sequence[str],
        *,
        context: Context = Context(),
        vector: object = None,
        query: str | None = None,
        relevance: Mapping[str, float] | None = None,
    ) -> dict[str, Expectation]:
        """The expected reward of each item in the context, by item id; also without any feedback on it.

        It is the prediction of the model in use, also for the cluster of the question if its ``vector``, shape
        (dimensions,), or its words are given; logistic models use ``relevance``, 0 to 1 by item id. Without a model it
        is Beta(successes + 1, failures + 1) of the item's raw counts in all contexts. Raises the embedder's errors for
        words, ``InvalidVectorError``, and ``InvalidRequestError``.
        """
        return await learning.expectations(
            self._handle, item_ids, context=context, vector=vector, query=query, relevance=relevance
        )

    async def learn(self) -> dict[str, Any]:
        """Run the jobs ``clusters`` and ``learn`` for this collection now; return the details of ``learn``.

        ``published`` says whether the fitted model is now in use, and ``reason`` why; ``verdicts`` and ``clusters`` are
        numbers, ``clusters`` 0 while another process finds them. Raises ``RetrievalError`` if a job fails.
        """
        details = await job_runs.learn_now(self._workplace, self._handle.tenant_id, self.refresh)
        await self.refresh()
        return details

    async def models(self) -> list[StoredModel]:
        """The latest twenty models of the learned reward, the newest first."""
        return await stored_models.latest_models(await self._handle.place())

    async def use_model(self, version: int | None) -> None:
        """Search only with that model; 0: without a model. None: with the newest if it passed, and so with later ones.

        Raises ``InvalidRequestError`` for a missing version, or one that did not pass its trial.
        """
        await learning.use_model(self._handle, version)

    # Upkeep.

    @property
    def name(self) -> str:
        """The collection's name, unique within its tenant."""
        return self._handle.stored.name

    async def make_filterable(self, attributes: Mapping[str, str], *, drop: Sequence[str] = ()) -> None:
        """Declare attributes as filterable, each with its type: ``text``, ``number``, ``boolean`` or ``time``.

        They are indexed, also in stored items, while writers wait; filters then compare them by that type. Existing
        declarations cost nothing. ``drop``: declared attributes whose indexes are dropped first; the items keep them,
        and filters on them become slower. Raises ``InvalidRequestError`` for an invalid name or type, and for an
        attribute that is declared with another type.
        """
        await make_filterable(self._handle, attributes, drop)

    async def set_neighbours(self, neighbours: Neighbours | None) -> int:
        """Index the items together with their neighbours in a sequence from now on, or each alone (None).

        The stored items are indexed again, by their words and their existing vectors, while searches and writes
        continue; returns their number. After an interruption the same call, or the job ``neighbours``, continues. An
        unchanged setting costs nothing. Raises ``InvalidRequestError`` for anything but ``Neighbours`` or None.
        """
        return await set_neighbours(self._handle, neighbours)

    async def refresh(self, *, older_than_seconds: float = 0.0) -> StoredCollection:
        """Read the collection's profile, space and size again if they are older than ``older_than_seconds``.

        A recreated collection of the same name, or another embedding space, is used from then on. Raises
        ``UnknownCollectionError`` if there is no such collection.
        """
        return await self._handle.refresh(older_than_seconds=older_than_seconds)


def handle_of(collection: Collection) -> CollectionHandle:
    """The collection's handle, for the applications and surfaces of this package."""
    return collection._handle  # noqa: SLF001 - of this module's class
