"""Collections without ``await``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from retrieval.adapters.readers import InputLine
from retrieval.adapters.readers.documents import RawDocument
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.models import StoredModel
from retrieval.collection import Collection
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.items.collection import CollectionInfo, Neighbours, ValueCount
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vector, Vectors
from retrieval.domain.items.item import Item, StoredItem
from retrieval.domain.items.passages import Passages
from retrieval.domain.learning.arm import Expectation, Standing
from retrieval.domain.learning.context import Context
from retrieval.domain.records.recorded import RecordedAnswer, RetrievalSummary
from retrieval.domain.records.slate import ShownItem
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.preview import Preview
from retrieval.domain.search.profile import DEPTH, Profile, StoredProfile
from retrieval.domain.search.query import SearchBounds
from retrieval.services.add import AddedEach, AddReport
from retrieval.services.change import ChangeReport, Decide
from retrieval.services.documents import DocumentProgress, DocumentsReport, Paths
from retrieval.services.ingest import IngestReport, Progress, Rejected
from retrieval.sync.door import Door


class SyncCollection:
    """``Collection`` without ``await``. ``SyncPlatform.collection`` gives it."""

    def __init__(self, collection: Collection, door: Door) -> None:
        self.twin = collection
        self.door = door
        self._run = door.run

    @property
    def name(self) -> str:
        """See ``Collection.name``."""
        return self.twin.name

    @property
    def profile(self) -> Profile:
        """See ``Collection.profile``."""
        return self.twin.profile

    @property
    def bounds(self) -> SearchBounds:
        """See ``Collection.bounds``."""
        return self.twin.bounds

    @property
    def profile_note(self) -> str:
        """See ``Collection.profile_note``."""
        return self.twin.profile_note

    def __repr__(self) -> str:
        return repr(self.twin).replace("<", "<Sync", 1)

    def _repr_html_(self) -> str:
        return self.twin._repr_html_()

    def add(self, items: Iterable[Item | Mapping[str, Any]], *, embeddings: object = None) -> AddReport:
        """See ``Collection.add``."""
        return self._run(self.twin.add, items, embeddings=embeddings)

    def add_new(self, items: Iterable[Item | Mapping[str, Any]]) -> AddReport:
        """See ``Collection.add_new``."""
        return self._run(self.twin.add_new, items)

    def ingest(
        self,
        lines: Iterator[InputLine],
        *,
        rejected: Rejected | None = None,
        prune: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """See ``Collection.ingest``. ``rejected`` and ``progress`` are called on the door's own thread."""
        return self._run(self.twin.ingest, lines, rejected=rejected, prune=prune, progress=progress)

    def ingest_documents(
        self,
        paths: Paths,
        *,
        chunking: Chunking = Chunking(),
        prune: bool = False,
        progress: DocumentProgress | None = None,
    ) -> DocumentsReport:
        """See ``Collection.ingest_documents``. ``progress`` is called on the door's own thread."""
        return self._run(self.twin.ingest_documents, paths, chunking=chunking, prune=prune, progress=progress)

    def add_documents(
        self, documents: Iterable[RawDocument | Mapping[str, Any]], *, chunking: Chunking = Chunking()
    ) -> DocumentsReport:
        """See ``Collection.add_documents``."""
        return self._run(self.twin.add_documents, documents, chunking=chunking)

    def delete_documents(self, document_ids: Sequence[str]) -> int:
        """See ``Collection.delete_documents``."""
        return self._run(self.twin.delete_documents, document_ids)

    def passages(
        self,
        query: str,
        *,
        max_tokens: int = 2000,
        around: int = 1,
        limit: int = 10,
        where: Where | Filter | None = None,
        count_tokens: Callable[[str], int] | None = None,
        context: Context = Context(),
    ) -> Passages:
        """See ``Collection.passages``."""
        return self._run(
            self.twin.passages,
            query,
            max_tokens=max_tokens,
            around=around,
            limit=limit,
            where=where,
            count_tokens=count_tokens,
            context=context,
        )

    def search(
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
        """See ``Collection.search``."""
        return self._run(
            self.twin.search,
            query,
            vector=vector,
            where=where,
            limit=limit,
            legs=legs,
            profile=profile,
            group_by=group_by,
            syntax=syntax,
            rewrites=rewrites,
            prefer=prefer,
            entities=entities,
            tags=tags,
            as_of=as_of,
            about=about,
            context=context,
        )

    def search_each(
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
        """See ``Collection.search_each``."""
        return self._run(
            self.twin.search_each,
            queries,
            vectors=vectors,
            where=where,
            limit=limit,
            legs=legs,
            profile=profile,
            group_by=group_by,
            syntax=syntax,
            context=context,
        )

    def interleave(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> SearchResult:
        """See ``Collection.interleave``."""
        ask = self.twin.interleave
        return self._run(ask, query, profiles=profiles, where=where, limit=limit, syntax=syntax, context=context)

    def unrecorded(self) -> SyncCollection:
        """See ``Collection.unrecorded``."""
        return SyncCollection(self.twin.unrecorded(), self.door)

    def leg_rankings(
        self,
        query: str,
        *,
        where: Where | Filter | None = None,
        legs: Sequence[str] = ("dense", "lexical"),
        depth: int = DEPTH,
    ) -> dict[str, list[Candidate]]:
        """See ``Collection.leg_rankings``."""
        return self._run(self.twin.leg_rankings, query, where=where, legs=legs, depth=depth)

    def get(self, item_ids: Sequence[str]) -> dict[str, Item]:
        """See ``Collection.get``."""
        return self._run(self.twin.get, item_ids)

    def latest(self, where: Where | Filter | None = None, *, limit: int = 100, offset: int = 0) -> list[StoredItem]:
        """See ``Collection.latest``."""
        return self._run(self.twin.latest, where, limit=limit, offset=offset)

    def paths(
        self,
        name: str,
        *,
        where: Where | Filter | None = None,
        depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """See ``Collection.paths``."""
        return self._run(self.twin.paths, name, where=where, depth=depth, limit=limit, offset=offset)

    def change(self, item_ids: Sequence[str], decide: Decide, *, keeps_time: bool = False) -> ChangeReport:
        """See ``Collection.change``. ``decide`` is called on the door's own thread."""
        return self._run(self.twin.change, item_ids, decide, keeps_time=keeps_time)

    def scan(self, where: Where | Filter | None = None, *, batch: int = 500) -> Iterator[Item]:
        """See ``Collection.scan``."""
        return self.door.each(self.twin.scan(where, batch=batch), batch=batch)

    def stored(self, item_ids: Sequence[str]) -> dict[str, StoredItem]:
        """See ``Collection.stored``."""
        return self._run(self.twin.stored, item_ids)

    def page(self, where: Where | Filter | None = None, *, after: str = "", limit: int = 100) -> list[StoredItem]:
        """See ``Collection.page``."""
        return self._run(self.twin.page, where, after=after, limit=limit)

    def put(self, item: Item | Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """See ``Collection.put``."""
        return self._run(self.twin.put, item, version=version)

    def patch(self, item_id: str, changes: Mapping[str, Any], *, version: str | None = None) -> StoredItem:
        """See ``Collection.patch``."""
        return self._run(self.twin.patch, item_id, changes, version=version)

    def remove(self, item_id: str, *, version: str | None = None) -> bool:
        """See ``Collection.remove``."""
        return self._run(self.twin.remove, item_id, version=version)

    def add_each(self, items: Sequence[Item | Mapping[str, Any]], *, more: bool = False) -> AddedEach:
        """See ``Collection.add_each``."""
        return self._run(self.twin.add_each, items, more=more)

    def vectors_of(self, queries: Sequence[str], *, role: TextRole = TextRole.QUERY) -> Vectors:
        """See ``Collection.vectors_of``."""
        return self._run(self.twin.vectors_of, queries, role=role)

    def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """See ``Collection.embeddings``."""
        return self._run(self.twin.embeddings, item_ids)

    def standings(self, item_ids: Sequence[str]) -> dict[str, Standing]:
        """See ``Collection.standings``."""
        return self._run(self.twin.standings, item_ids)

    def standings_where(self, where: Where | Filter) -> list[Standing]:
        """See ``Collection.standings_where``."""
        return self._run(self.twin.standings_where, where)

    def expectations(
        self,
        item_ids: Sequence[str],
        *,
        context: Context = Context(),
        vector: object = None,
        query: str | None = None,
        relevance: Mapping[str, float] | None = None,
    ) -> dict[str, Expectation]:
        """See ``Collection.expectations``."""
        return self._run(
            self.twin.expectations, item_ids, context=context, vector=vector, query=query, relevance=relevance
        )

    def is_trained(self) -> bool:
        """See ``Collection.is_trained``."""
        return self._run(self.twin.is_trained)

    def count_verdicts(self, *, domain: str | None = None, at_most: int | None = None) -> int:
        """See ``Collection.count_verdicts``."""
        return self._run(self.twin.count_verdicts, domain=domain, at_most=at_most)

    def learn(self) -> dict[str, Any]:
        """See ``Collection.learn``."""
        return self._run(self.twin.learn)

    def record_answer(
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
        """See ``Collection.record_answer``."""
        return self._run(
            self.twin.record_answer,
            query,
            shown,
            origin=origin,
            retrieval_time_ms=retrieval_time_ms,
            context=context,
            vector=vector,
            about=about,
            notes=notes,
        )

    def answers_of(self, session: str, *, origin: str | None = None, limit: int = 20) -> list[RecordedAnswer]:
        """See ``Collection.answers_of``."""
        return self._run(self.twin.answers_of, session, origin=origin, limit=limit)

    def count_accesses(self, item_ids: Sequence[str]) -> None:
        """See ``Collection.count_accesses``."""
        self._run(self.twin.count_accesses, item_ids)

    def delete(self, item_ids: Sequence[str]) -> int:
        """See ``Collection.delete``."""
        return self._run(self.twin.delete, item_ids)

    def set_status(self, item_id: str, status: str, *, was: str | None = None) -> bool:
        """See ``Collection.set_status``."""
        return self._run(self.twin.set_status, item_id, status, was=was)

    def set_profile(self, profile: Profile, *, note: str = "") -> int:
        """See ``Collection.set_profile``."""
        return self._run(self.twin.set_profile, profile, note=note)

    def profiles(self, *, limit: int = 100) -> list[StoredProfile]:
        """See ``Collection.profiles``."""
        return self._run(self.twin.profiles, limit=limit)

    def stored_profile(self, version: int | None = None) -> StoredProfile:
        """See ``Collection.stored_profile``."""
        return self._run(self.twin.stored_profile, version)

    def use_profile(self, version: int) -> None:
        """See ``Collection.use_profile``."""
        self._run(self.twin.use_profile, version)

    def preview(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> Preview:
        """See ``Collection.preview``."""
        return self._run(
            self.twin.preview, query, profiles=profiles, where=where, limit=limit, syntax=syntax, context=context
        )

    def retrievals(
        self, *, limit: int = 20, before: UUID | str | None = None, session: str = ""
    ) -> list[RetrievalSummary]:
        """See ``Collection.retrievals``."""
        return self._run(self.twin.retrievals, limit=limit, before=before, session=session)

    def models(self) -> list[StoredModel]:
        """See ``Collection.models``."""
        return self._run(self.twin.models)

    def use_model(self, version: int | None) -> None:
        """See ``Collection.use_model``."""
        self._run(self.twin.use_model, version)

    def set_half_life(self, days: float) -> None:
        """See ``Collection.set_half_life``."""
        self._run(self.twin.set_half_life, days)

    def set_daily_cap(self, events: int) -> None:
        """See ``Collection.set_daily_cap``."""
        self._run(self.twin.set_daily_cap, events)

    def make_filterable(self, attributes: Mapping[str, str]) -> None:
        """See ``Collection.make_filterable``."""
        self._run(self.twin.make_filterable, attributes)

    def make_unfilterable(self, names: Sequence[str]) -> None:
        """See ``Collection.make_unfilterable``."""
        self._run(self.twin.make_unfilterable, names)

    def set_neighbours(self, neighbours: Neighbours | None) -> int:
        """See ``Collection.set_neighbours``."""
        return self._run(self.twin.set_neighbours, neighbours)

    def space(self) -> EmbeddingSpace | None:
        """See ``Collection.space``."""
        return self._run(self.twin.space)

    def info(self) -> CollectionInfo:
        """See ``Collection.info``."""
        return self._run(self.twin.info)

    def value_counts(self, field: str, *, where: Where | Filter | None = None) -> list[ValueCount]:
        """See ``Collection.value_counts``."""
        return self._run(self.twin.value_counts, field, where=where)

    def count_vectors(self) -> int:
        """See ``Collection.count_vectors``."""
        return self._run(self.twin.count_vectors)

    def refresh(self, *, older_than_seconds: float = 0.0) -> StoredCollection:
        """See ``Collection.refresh``."""
        return self._run(self.twin.refresh, older_than_seconds=older_than_seconds)
