"""A collection as a vector store and as a retriever of LangChain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Self
from uuid import UUID, uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field

from retrieval.adapters.readers.records import EXPLANATION_KEY, document_item
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import checked_limit, checked_list, checks_argument_names, clean_text, clean_value, kind_of
from retrieval.domain.errors import ConfigurationError, InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.items.item import Item
from retrieval.domain.learning.context import Context
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned, check_share
from retrieval.domain.search.signals import VectorSimilarity
from retrieval.engine.request import MAX_LIMIT
from retrieval.surfaces.langchain.bridge import Bridge, blocking, log_notes
from retrieval.surfaces.langchain.embeddings import LangChainEmbedder, RetrievalEmbeddings
from retrieval.surfaces.langchain.metadata_filters import of_metadata
from retrieval.sync import SyncCollection, SyncPlatform, connect

Condition = Where | Filter | None


_OPTIONS = frozenset(signature(Collection.search).parameters) - {"self", "query", "vector", "limit"}


def _check_options(options: Mapping[str, object], *known: str) -> None:
    """Raise ``InvalidRequestError`` for an option that a call does not have."""
    for name in sorted(options.keys() - set(known)):
        raise InvalidRequestError(f"there is no option {name!r}; there are: {', '.join(known)}")


Search = Callable[..., Awaitable[SearchResult]]
"""One of the three searches that follow."""


async def by_profile(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The best hits of the collection's profile for words, or for a vector of shape (dimensions,).

    ``options`` are those of ``Collection.search``. Words are taken literally, unless ``syntax=True``. Raises
    ``InvalidRequestError`` for an unknown option.
    """
    _check_options(options, "k", "filter", *sorted(_OPTIONS))
    known = (await handle_of(collection).fresh()).attributes
    where = of_metadata(every_of(condition, options.pop("where", None)), known)
    words_or_vector = {"query": question} if isinstance(question, str) else {"vector": question}
    checked_limit(k, MAX_LIMIT, name="k")
    return await collection.search(**words_or_vector, where=where, limit=k, **{"syntax": False} | options)


async def by_similarity(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The nearest hits, scored by their cosine (negative counts as 0) and not by the profile.

    Raises ``InvalidRequestError`` for a collection without vectors, and for a ``profile``, which would rank otherwise.
    """
    if options.get("profile") is not None:
        raise InvalidRequestError(
            "relevance from 0 to 1 is the cosine, whatever a profile says; leave the profile out, "
            "or use search_type='similarity'"
        )
    if await collection.space() is None:
        raise InvalidRequestError(
            f"collection {collection.name!r} has no vectors, so no relevance from 0 to 1; use search_type='similarity'"
        )
    profile = Profile(
        legs={LegName.DENSE.value: 1.0},
        fusion=Fusion(kind=FusionKind.UNION),
        signals=(VectorSimilarity(weight=1.0),),
        learned=Learned(combination=Combination.OFF),
    )
    return await by_profile(collection, question, k, condition, **options | {"profile": profile})


async def by_difference(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The hits of the profile by maximal marginal relevance among the best ``fetch_k`` of each leg.

    ``lambda_mult``, 0 to 1, is the share of relevance: 1 ranks by it alone, 0 by difference alone.
    """
    fetch_k, share = options.pop("fetch_k", 20), options.pop("lambda_mult", 0.5)
    base: Profile = options.pop("profile", None) or collection.profile
    check_share("lambda_mult", share)
    diversity = replace(base.diversity, relevance_share=share)
    checked_limit(fetch_k, least=0, name="fetch_k")
    checked_limit(k, MAX_LIMIT, name="k")
    profile = replace(base, depth=min(MAX_DEPTH, max(k, fetch_k)), diversity=diversity)
    return await by_profile(collection, question, k, condition, **options | {"profile": profile})


def _numbers(embedding: object) -> list[float]:
    """The vector. Raises ``InvalidRequestError`` for anything but a list or an array."""
    return checked_list("the numbers of an embedding", embedding, "[0.25, -0.5]")


def every_of(*conditions: Condition) -> Condition:
    """The condition that all of them hold."""
    wanted = [condition for condition in conditions if condition is not None]
    return wanted[0] if len(wanted) == 1 else {"and": wanted} if wanted else None


_DELETED_AT_ONCE = 1000


class RetrievalVectorStore(VectorStore):
    """Documents in a collection: ``RetrievalVectorStore(platform.collection("docs"))``.

    Searches are those of the collection, by words and vectors according to its profile. They accept its filters
    (``filter`` or ``where``) and every other option of ``Collection.search``. With ``explain``, here or in a call, the
    metadata of each document have its explanation under ``_retrieval``, with the ``retrieval_id`` for feedback.
    Searches are recorded with the ``context``.

    Every method has an async form, whose name begins with ``a``, for any loop: see ``Bridge``. Raises the platform's
    errors.
    """

    # LangChain's own async methods wait in threads of the loop. A few at once would occupy all of them, and an embedder
    # or a database that needs a thread would never answer.

    @checks_argument_names
    def __init__(
        self,
        collection: Collection | SyncCollection,
        *,
        explain: bool = False,
        context: Context = Context(),
        opened: SyncPlatform | None = None,
    ) -> None:
        self.collection = collection
        self.explain = explain
        self.context = context
        self._bridge: Bridge[Collection] = Bridge(collection)
        self._opened = opened

    @property
    def embeddings(self) -> Embeddings:
        """The collection's embedder."""
        return RetrievalEmbeddings(self.collection)

    async def aadd_documents(self, /, documents: list[Document], **kwargs: Any) -> list[str]:
        """Store documents and return their ids: those of ``ids``, or else their own, or else new ones.

        A document with an existing id is replaced. A document that cannot be embedded now is stored, found by its
        words, and embedded later.
        """
        return await self._bridge.arun(self._added, documents, **kwargs)

    add_documents = blocking(aadd_documents)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, each with its metadata and id. See ``aadd_documents``."""
        return self.add_documents(_documents(texts, metadatas), ids=ids, **kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """The async form of ``add_texts``."""
        return await self.aadd_documents(_documents(texts, metadatas), ids=ids, **kwargs)

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents of those ids that exist, in the order of the ids."""
        return await self._bridge.arun(self._got, ids)

    get_by_ids = blocking(aget_by_ids)

    async def adelete(self, /, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete the documents of those ids, or with None every item of the collection. Unknown ids are ignored."""
        return await self._bridge.arun(self._deleted, ids, **kwargs)

    delete = blocking(adelete)

    async def asimilarity_search(
        self, /, query: str, k: int = 4, filter: Condition = None, **kwargs: Any  # noqa: A002 - LangChain's name
    ) -> list[Document]:  # fmt: skip
        """The best documents for the words, by the collection's profile."""
        return await self._bridge.arun(self._found, by_profile, query, k, filter, **kwargs)

    similarity_search = blocking(asimilarity_search)

    async def asimilarity_search_with_score(
        self, /, query: str, k: int = 4, filter: Condition = None, **kwargs: Any  # noqa: A002 - LangChain's name
    ) -> list[tuple[Document, float]]:  # fmt: skip
        """The same as ``asimilarity_search``, with scores: higher is better, comparable within one search only."""
        return await self._bridge.arun(self._scored, by_profile, query, k, filter, **kwargs)

    similarity_search_with_score = blocking(asimilarity_search_with_score)

    async def asimilarity_search_by_vector(
        self, /, embedding: list[float], k: int = 4, filter: Condition = None, **kwargs: Any  # noqa: A002 - the same
    ) -> list[Document]:  # fmt: skip
        """The best documents for a vector of shape (dimensions,)."""
        return await self._bridge.arun(self._found, by_profile, _numbers(embedding), k, filter, **kwargs)

    similarity_search_by_vector = blocking(asimilarity_search_by_vector)

    async def amax_marginal_relevance_search(
        self, /, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Documents that are relevant and differ from one another: see ``retrieval.domain.search.diversity``.

        ``fetch_k`` is the number of candidates of each leg; ``lambda_mult``, 0 to 1, is the share of relevance.
        """
        options = kwargs | {"fetch_k": fetch_k, "lambda_mult": lambda_mult}
        return await self._bridge.arun(self._found, by_difference, query, k, **options)

    max_marginal_relevance_search = blocking(amax_marginal_relevance_search)

    async def amax_marginal_relevance_search_by_vector(
        self, /, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """The same as ``amax_marginal_relevance_search``, for a vector of shape (dimensions,)."""
        options = kwargs | {"fetch_k": fetch_k, "lambda_mult": lambda_mult}
        return await self._bridge.arun(self._found, by_difference, _numbers(embedding), k, **options)

    max_marginal_relevance_search_by_vector = blocking(amax_marginal_relevance_search_by_vector)

    async def _asimilarity_search_with_relevance_scores(
        self, /, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return await self._bridge.arun(self._scored, by_similarity, query, k, **kwargs)

    _similarity_search_with_relevance_scores = blocking(_asimilarity_search_with_relevance_scores)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection: Collection | SyncCollection | None = None,
        collection_name: str = "langchain",
        url: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """A store with these texts, added to the existing items of its collection.

        Without ``collection`` the store opens its own platform by ``retrieval.connect(url)``, and uses the collection
        of the given name; ``close``, a ``with`` block or the end of the program closes the platform. Raises
        ``ConfigurationError`` if the vectors of the ``collection`` are not those of ``embedding``.
        """
        embedder = None if embedding is None else LangChainEmbedder.of(embedding)
        opened: SyncPlatform | None = None
        try:
            if collection is None:
                opened = connect(url, embedder=embedder).open()
                collection = opened.collection(collection_name)
            store = cls(collection, opened=opened, **kwargs)
            if embedder is not None:
                store._check_space(embedder.space)
            store.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            if opened is not None:
                opened.close()
            raise
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """The async form of ``from_texts``."""
        store = await asyncio.to_thread(cls.from_texts, [], embedding, **kwargs)
        try:
            await store.aadd_texts(texts, metadatas, ids=ids)
        except BaseException:
            await store.aclose()
            raise
        return store

    def _check_space(self, wanted: EmbeddingSpace) -> None:
        """Raise ``ConfigurationError`` unless the collection's vectors are of that space."""
        collection = self._bridge.twin
        space = self._bridge.run(collection.space)
        if space != wanted:
            has = "no vectors" if space is None else f"the vectors of {space.name}"
            raise ConfigurationError(
                f"collection {collection.name!r} has {has} and not those of {wanted.name}; leave the embedding out, "
                "or use another collection"
            )

    def close(self) -> None:
        """Close the platform that ``from_texts`` opened; another platform stays open."""
        if self._opened is not None:
            self._opened.close()

    async def aclose(self) -> None:
        """The async form of ``close``."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _added(
        self, documents: Sequence[Document], ids: Sequence[str | None] | None = None, **options: object
    ) -> list[str]:
        # LangChain's index gives a batch_size; the collection has batches of its own.
        _check_options(options, "ids", "batch_size")
        items = items_of(documents, ids)
        if items:
            log_notes(self._bridge.twin, await self._bridge.twin.add(items))
        return [item.item_id for item in items]

    async def _got(self, ids: Sequence[str]) -> list[Document]:
        keys = checked_list("ids", ids, _IDS)
        found = await self._bridge.twin.get(list(dict.fromkeys(keys)))
        return [document_of(found[key]) for key in dict.fromkeys(keys) if key in found]

    async def _deleted(self, ids: Sequence[str] | None = None, **options: object) -> bool:
        _check_options(options, "ids")
        if ids is not None:
            await self._bridge.twin.delete(ids)
            return True
        for where in (None, {"status": "archived"}):
            page: list[str] = []
            async for item in self._bridge.twin.scan(where):
                page.append(item.item_id)
                if len(page) == _DELETED_AT_ONCE:
                    await self._bridge.twin.delete(page)
                    page = []
            await self._bridge.twin.delete(page)
        return True

    async def _found(
        self,
        search: Search,
        question: str | list[float],
        k: int,
        filter: Condition = None,  # noqa: A002 - LangChain's name
        **options: Any,
    ) -> list[Document]:
        return [document for document, _ in await self._scored(search, question, k, filter, **options)]

    async def _scored(
        self,
        search: Search,
        question: str | list[float],
        k: int,
        filter: Condition = None,  # noqa: A002 - LangChain's name
        *,
        explain: bool | None = None,
        **options: Any,
    ) -> list[tuple[Document, float]]:
        result = await search(self._bridge.twin, question, k, filter, **{"context": self.context} | options)
        documents = documents_of(result, explain=self.explain if explain is None else explain)
        return [(document, hit.score) for document, hit in zip(documents, result, strict=True)]


def _documents(texts: Iterable[str], metadatas: Sequence[Mapping[str, Any]] | None) -> list[Document]:
    every = checked_list("texts", texts, "['first text', 'second text']")
    given = checked_list("metadatas", metadatas or [{}] * len(every), "[{'source': 'a.md'}, {'source': 'b.md'}]")
    if len(given) != len(every):
        raise InvalidRequestError(f"{len(given)} metadata for {len(every)} texts; give one for each")
    return [
        Document(page_content=text, metadata=dict(metadata or {})) for text, metadata in zip(every, given, strict=True)
    ]


_IDS = "['a', 'b']"


def items_of(documents: Sequence[Document], ids: Sequence[str | None] | None) -> list[Item]:
    """The items of documents, in order; the id is that of ``ids``, or else the document's own, or else a new one.

    Raises ``InvalidItemError``, and ``InvalidRequestError`` if an argument is no list, if the lengths of the lists
    differ, or if an element is no ``Document``.
    """
    every = checked_list("documents", documents, "[Document(page_content='...')]")
    given = [None] * len(every) if ids is None else checked_list("ids", ids, _IDS)
    if len(given) != len(every):
        raise InvalidRequestError(f"{len(given)} ids for {len(every)} documents; give one for each")
    for document in every:
        if not isinstance(document, Document):
            raise InvalidRequestError(
                f"a document is {kind_of(document)}; it must be a Document; add_texts takes texts"
            )
    return [
        document_item(str(item_id or document.id or uuid4()), document.page_content, document.metadata)
        for document, item_id in zip(every, given, strict=True)
    ]


def document_of(found: Item | Hit, explained: Mapping[str, Any] | None = None) -> Document:
    """The document of an item or a hit; its metadata have ``explained`` under the reserved name.

    A document has no title: that of an item stands before the text, and in the metadata with the other fields.
    Characters that could hide or forge text are removed.
    """
    extra = {} if explained is None else {EXPLANATION_KEY: dict(explained)}
    text = f"{found.title}\n{found.body}" if found.title and found.body else found.title or found.body
    metadata = clean_value(_fields(found) | dict(found.attributes))
    return Document(id=found.item_id, page_content=clean_text(text), metadata=metadata | extra)


def documents_of(result: SearchResult, *, explain: bool) -> list[Document]:
    """The documents of a search, best first."""
    return [document_of(hit, explanation_of(hit, result.retrieval_id) if explain else None) for hit in result]


def explanation_of(hit: Hit, retrieval_id: UUID | None) -> dict[str, Any]:
    """The explanation of a hit, in plain JSON values; feedback names the ``retrieval_id``."""
    return {
        "retrieval_id": None if retrieval_id is None else str(retrieval_id),
        "score": hit.score,
        "relevance": hit.relevance,
        "rank": hit.rank,
        "slot": hit.slot.value,
        "propensity": hit.propensity,
        "explanation": hit.explanation.as_dict(),
        **({} if hit.snippet is None else {"snippet": hit.snippet.as_dict()}),
    }


def _fields(found: Item | Hit) -> dict[str, Any]:
    values = {
        "title": found.title,
        "kind": found.kind,
        "tags": list(found.tags),
        "status": "" if found.status == "active" else found.status,
        "source": found.source,
        "occurred_at": found.occurred_at.isoformat() if found.occurred_at else "",
    }
    return {name: value for name, value in values.items() if value}


_CONDITIONS = ("where", "filter")


class RetrievalRetriever(BaseRetriever):
    """Searches a collection: ``RetrievalRetriever(collection=platform.collection("docs"), k=5).invoke("words")``.

    ``k`` and ``where``, and every option of ``Collection.search`` in ``search_kwargs``, may be given here or with
    ``invoke``; a ``where`` (or ``filter``) of ``invoke`` narrows the one given here. The metadata of each document have
    its explanation under ``_retrieval``, with the ``retrieval_id`` for feedback, unless ``explain`` is False. Works
    with and without ``await``: see ``Bridge``.
    """

    model_config = ConfigDict(extra="forbid")

    collection: Any
    """A ``Collection``, or a ``SyncCollection``."""
    k: int = 4
    """Documents wanted, 1 to 1000."""
    where: Any = None
    """The filter."""
    explain: bool = True
    context: Context = Field(default_factory=Context)
    """The context that searches are recorded with."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of ``Collection.search``: legs, profile, rewrites, prefer, tags and so on."""

    def model_post_init(self, context: Any, /) -> None:
        """Raise ``InvalidRequestError`` for anything but a collection."""
        super().model_post_init(context)
        _ = self._bridge

    @property
    def _bridge(self) -> Bridge[Collection]:
        """The bridge, created for each call because ``collection`` may have changed, as in a copy."""
        return Bridge[Collection](self.collection)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, **kwargs: Any) -> list[Document]:
        del run_manager  # LangChain gives it to every retriever
        return await self._bridge.arun(self._found, query, **kwargs)

    _get_relevant_documents = blocking(_aget_relevant_documents)

    async def _found(self, query: str, **kwargs: Any) -> list[Document]:
        given: dict[str, Any] = (
            {"k": self.k, "explain": self.explain, "context": self.context} | self.search_kwargs | kwargs
        )
        options = {name: value for name, value in given.items() if name not in _CONDITIONS}
        k, explain = options.pop("k"), options.pop("explain")
        condition = every_of(
            self.where, *(arguments.get(name) for arguments in (self.search_kwargs, kwargs) for name in _CONDITIONS)
        )
        result = await by_profile(self._bridge.twin, query, self.k if k is None else k, condition, **options)
        return documents_of(result, explain=self.explain if explain is None else explain)
