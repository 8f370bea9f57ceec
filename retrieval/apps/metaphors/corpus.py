"""The corpus of metaphors: curated and added ones, and near-duplicates."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Self

from retrieval.apps.metaphors import metaphor as values
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.probation import ACTIVE, ARCHIVED, CANDIDATE, status_after
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import checked_number, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, InvalidVectorError, UnknownItemError
from retrieval.domain.items.embedding import TextRole, Vector, checked_vectors
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Profile
from retrieval.engine.request import checked_item_ids
from retrieval.platform import Platform, checked_platform
from retrieval.services.items import add_new, set_status

_CURATED = files("retrieval.apps.metaphors").joinpath("standard_corpus.json")

STANDARD_CORPUS = [values.metaphor_from_record(record) for record in json.loads(_CURATED.read_text(encoding="utf-8"))]
"""The curated metaphors, each with its operations, their effects, and problems that it helps to think about."""


DUPLICATE_FROM = 0.52
"""The least cosine of near-duplicates, measured with MiniLM: see docs/decisions/0024-metaphors.md."""

MOST = 20
"""The nearest metaphors that are compared by meaning."""

_BY_MEANING = Profile(legs={"dense": 1.0})


async def own_vector(collection: Collection, embedding: Sequence[float] | None, key: str) -> Vector | None:
    """The vector that a metaphor or problem with that key brings; None: it brings none.

    Raises ``InvalidVectorError`` if it is not of the collection's embedding space.
    """
    if embedding is None:
        return None
    space = await collection.space()
    if space is None:
        raise InvalidVectorError("the corpus has no embedding space; leave out the embedding, or configure an embedder")
    vector: Vector = checked_vectors([embedding], space, [repr(key)])[0]
    return vector


async def vector_of(collection: Collection, metaphor: Metaphor) -> Vector:
    """The metaphor's own vector, else that of its text. Raises as ``own_vector`` and ``Collection.vectors_of``."""
    vector = await own_vector(collection, metaphor.embedding, metaphor.id)
    if vector is None:
        [vector] = await collection.vectors_of([values.embedded_text(metaphor)], role=TextRole.DOCUMENT)
    return vector


COLLECTION = "metaphors"

_log = logging.getLogger(__name__)


class MetaphorCorpus:
    """The metaphors of one collection: ``static`` ones, which a program passes, and dynamic ones, which are stored.

    ``async for metaphor in corpus`` yields both, without candidates.
    """

    def __init__(self, collection: Collection, static: Sequence[Metaphor] = STANDARD_CORPUS) -> None:
        """``collection`` must contain the static ones: use ``open``, which stores them. Ids must not repeat."""
        if not isinstance(collection, Collection):
            raise InvalidRequestError(
                f"collection is {written(collection)}; give a collection, or use await MetaphorCorpus.open(platform)"
            )
        self._collection = collection
        self._static: dict[str, Metaphor] = {}
        for metaphor in values.checked_metaphors("static metaphors", static):
            if metaphor.id in self._static:
                raise InvalidRequestError(f"static holds metaphor {written(metaphor.id)} twice; give each id once")
            self._static[metaphor.id] = metaphor

    @classmethod
    async def open(
        cls, platform: Platform, name: str = COLLECTION, static: Sequence[Metaphor] = STANDARD_CORPUS
    ) -> Self:
        """The corpus of that name, made if missing, with the static metaphors stored and the candidates settled.

        Metaphors that were added while the embedder did not answer get their vectors. A stored static metaphor that is
        no longer in ``static`` is archived; one that ``add`` stored under an id of ``static`` does not change. Raises
        ``InvalidVectorError`` for an embedding of another space.
        """
        checked_platform("platform", platform)
        collection = await platform.collection(name, profile=values.METAPHORS_PROFILE, filterable=values.FILTERABLE)
        corpus = cls(collection, static)
        await corpus._store_static()
        await corpus.settle_all()
        return corpus

    @property
    def collection(self) -> Collection:
        """The collection that holds the metaphors."""
        return self._collection

    @property
    def static(self) -> list[Metaphor]:
        """The static metaphors, in their order."""
        return list(self._static.values())

    async def __aiter__(self) -> AsyncIterator[Metaphor]:
        for metaphor in self.static:
            yield metaphor
        async for item in self._stored(ACTIVE):
            if item.item_id not in self._static:
                yield values.metaphor_of(item)

    async def count(self) -> int:
        """The number of metaphors in the corpus, without candidates."""
        return len(self._static) + len(await self.dynamic())

    async def dynamic(self) -> list[Metaphor]:
        """The added and accepted metaphors, by id."""
        return [values.metaphor_of(item) async for item in self._stored(ACTIVE) if item.item_id not in self._static]

    async def candidates(self) -> list[Metaphor]:
        """The suggested metaphors that are not settled yet, by id."""
        return [values.metaphor_of(item) async for item in self._stored(CANDIDATE)]

    async def get(self, ids: str | Sequence[str]) -> dict[str, Metaphor]:
        """The existing metaphors of those ids, or of one id, by id, in that order; candidates and rejected ones too."""
        return {key: values.metaphor_of(item) for key, item in (await self._items(ids)).items()}

    async def origins(self, ids: str | Sequence[str]) -> dict[str, values.Origin]:
        """The origin and status of the metaphors, by id; unknown ids are missing."""
        stored, key_of = await self._items(ids), values.PROVENANCE
        return {
            key: values.Origin(source=item.source, status=item.status, provenance=item.attributes.get(key_of) or {})
            for key, item in stored.items()
        }

    async def all_ids(self) -> set[str]:
        """Every id in use: of the corpus, of candidates, and of rejected metaphors."""
        stored_ids = {item.item_id async for item in self._stored(ACTIVE, CANDIDATE, ARCHIVED)}
        return stored_ids | set(self._static)

    async def embeddings(self, ids: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """The stored vectors of those metaphors that have one, by id: shape (dimensions,), of length 1."""
        return {key: tuple(map(float, vector)) for key, vector in (await self._collection.embeddings(ids)).items()}

    async def embed(self, metaphor: Metaphor) -> Metaphor:
        """The metaphor with its own vector, or else with that of its text, stored or made now.

        Raises the embedder's errors, and ``InvalidRequestError`` for a collection without an embedding space.
        """
        values.checked_metaphor("metaphor", metaphor)
        if metaphor.embedding is not None:
            return metaphor
        stored = (await self._items([metaphor.id])).get(metaphor.id)
        if stored is not None and stored.indexed_text == values.embedded_text(metaphor):
            vector = (await self.embeddings([metaphor.id])).get(metaphor.id)
            if vector is not None:
                return replace(metaphor, embedding=vector)
        return replace(metaphor, embedding=tuple(map(float, await vector_of(self._collection, metaphor))))

    async def add(
        self,
        metaphor: Metaphor,
        source: str = values.GENERATED,
        provenance: Mapping[str, Any] | None = None,
        *,
        status: str = ACTIVE,
    ) -> None:
        """Store a new metaphor of the corpus, or with ``status="candidate"`` one that has to prove itself first.

        ``source`` and ``provenance`` describe its origin. Its own ``embedding`` is stored, else its text is embedded;
        if the embedder does not answer, a warning is logged. The metaphor is not validated: see ``validate_metaphor``.
        Raises ``InvalidRequestError`` for an id in use, the source ``static`` and another status, and
        ``InvalidVectorError`` for an embedding of another space.
        """
        values.checked_metaphor("metaphor", metaphor)
        if provenance is not None and not isinstance(provenance, Mapping):
            raise InvalidRequestError(f"provenance is {written(provenance)}; give a dictionary of JSON values, or None")
        if source == values.STATIC:
            raise InvalidRequestError("static metaphors are given to MetaphorCorpus.open(); name another source")
        if status not in (ACTIVE, CANDIDATE):
            raise InvalidRequestError(f"status is {written(status)}; a new metaphor is {ACTIVE!r} or {CANDIDATE!r}")
        if metaphor.id in self._static:
            raise _already_exists(metaphor.id)
        item = values.metaphor_item(metaphor, source=source, status=status, provenance=provenance)
        vector = await own_vector(self._collection, metaphor.embedding, metaphor.id)
        try:
            report = await add_new(handle_of(self._collection), item, vector)
        except InvalidItemError as error:
            if not await self._collection.get([metaphor.id]):
                raise
            raise _already_exists(metaphor.id) from error
        if report.pending:
            _log.warning("metaphor %r waits for its vector; until then searches do not find it", metaphor.id)
        for note in report.notes:
            _log.warning("metaphor %r: %s", metaphor.id, note)

    async def add_candidate(self, metaphor: Metaphor, provenance: Mapping[str, Any] | None = None) -> None:
        """Store a generated metaphor as a candidate.

        Raises ``InvalidRequestError`` for a metaphor that ``validate_metaphor`` finds invalid, and for an id in use.
        """
        is_valid, issues = values.validate_metaphor(metaphor)
        if not is_valid:
            raise InvalidRequestError(f"metaphor {written(metaphor.id)} cannot be used: {'; '.join(issues)}")
        await self.add(metaphor, values.GENERATED, provenance, status=CANDIDATE)

    async def accept(self, metaphor_id: str) -> None:
        """Accept a candidate, or a rejected metaphor, into the corpus. Raises ``UnknownItemError``."""
        await self._item(metaphor_id)
        await set_status(handle_of(self._collection), metaphor_id, ACTIVE)

    async def reject(self, metaphor_id: str) -> None:
        """Reject a candidate or a dynamic metaphor; it stays stored, so that it is not suggested again.

        Raises ``UnknownItemError``, and ``InvalidRequestError`` for a static metaphor.
        """
        await self._item(metaphor_id)
        if metaphor_id in self._static:
            raise InvalidRequestError(f"metaphor {written(metaphor_id)} is static; open the corpus without it")
        await set_status(handle_of(self._collection), metaphor_id, ARCHIVED)

    async def settle(self, metaphor_id: str) -> str:
        """Accept or reject a candidate by its verdicts (see ``status_after``); returns its status.

        Other metaphors keep their status. Raises ``UnknownItemError``.
        """
        item = await self._item(metaphor_id)
        standing = (await self._collection.standings([metaphor_id])).get(metaphor_id)
        if item.status != CANDIDATE or standing is None:
            return item.status
        status = status_after(standing.uses, standing.successes)
        if status is None:
            return item.status
        await set_status(handle_of(self._collection), metaphor_id, status, was=CANDIDATE)
        return (await self._item(metaphor_id)).status

    async def settle_all(self) -> dict[str, str]:
        """Settle every candidate with enough verdicts; returns the status of the settled ones, by id."""
        ids = [candidate.id for candidate in await self.candidates()]
        standings = await self._collection.standings(ids) if ids else {}
        due = [key for key, standing in standings.items() if status_after(standing.uses, standing.successes)]
        return {key: await self.settle(key) for key in due}

    async def near_duplicates(self, metaphor: Metaphor, above: float = DUPLICATE_FROM) -> list[tuple[Metaphor, float]]:
        """The near-duplicates of the metaphor, candidates too, with their similarities, best first, then by id.

        The similarity is 1 for the same ``name_key``, also of rejected metaphors; else it is the cosine of the vectors,
        at least ``above`` (0 to 1). Raises the embedder's errors.
        """
        values.checked_metaphor("metaphor", metaphor)
        checked_number("above", above)
        known = {"kind": values.KIND, "status": [ACTIVE, CANDIDATE, ARCHIVED]}
        where = {**known, values.NAME_KEY: values.name_key(metaphor.name)}
        similarities = {item.item_id: (values.metaphor_of(item), 1.0) async for item in self._collection.scan(where)}
        near: Sequence[Hit] = ()
        if await self._collection.space() is not None:
            vector = await vector_of(self._collection, metaphor)
            near = await self._collection.unrecorded().search(
                vector=vector, where={**known, "status": [ACTIVE, CANDIDATE]}, limit=MOST, profile=_BY_MEANING
            )
        for hit in near:
            for part in hit.explanation.contributions:
                if part.leg == "dense" and part.raw_score is not None and part.raw_score >= above:
                    similarities.setdefault(hit.item_id, (values.metaphor_of(hit), part.raw_score))
        similarities.pop(metaphor.id, None)
        return sorted(similarities.values(), key=lambda pair: (-pair[1], pair[0].id))

    async def _store_static(self) -> None:
        """Make the stored static metaphors equal to ``static``."""
        items = {metaphor.id: values.metaphor_item(metaphor) for metaphor in self.static}
        stored = await self._collection.get(list(items))
        for key in [key for key, item in stored.items() if item.source != values.STATIC]:
            _log.warning("metaphor %r was added by an application, and does not change", key)
            del items[key], self._static[key]
        if own := {key: metaphor.embedding for key, metaphor in self._static.items() if metaphor.embedding}:
            vectors = [await own_vector(self._collection, embedding, key) for key, embedding in own.items()]
            await self._collection.add([items[key] for key in own], embeddings=vectors)
        removed = [
            item async for item in self._stored(ACTIVE) if item.source == values.STATIC and item.item_id not in items
        ]
        report = await self._collection.add([*items.values(), *(item.changed(status=ARCHIVED) for item in removed)])
        if not report.pending and (await self._collection.info()).pending:
            # An ingest of nothing embeds what waits.
            report = (await self._collection.ingest(iter(()))).items
        for note in report.notes:
            _log.warning("collection %r: %s", self._collection.name, note)

    async def _stored(self, *statuses: str) -> AsyncIterator[Item]:
        async for item in self._collection.scan({"kind": values.KIND, "status": list(statuses)}):
            yield item

    async def _items(self, ids: str | Sequence[str]) -> dict[str, Item]:
        keys = checked_item_ids(ids)
        stored = await self._collection.get(keys)
        return {key: stored[key] for key in keys if key in stored and stored[key].kind == values.KIND}

    async def _item(self, metaphor_id: str) -> Item:
        items = await self._items([metaphor_id])
        if metaphor_id not in items:
            raise UnknownItemError(
                f"there is no metaphor {written(metaphor_id)} in collection {self._collection.name!r}"
            )
        return items[metaphor_id]


def _already_exists(metaphor_id: str) -> InvalidRequestError:
    return InvalidRequestError(f"Metaphor {written(metaphor_id)} already exists; give it another id")
