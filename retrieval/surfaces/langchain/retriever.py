"""A collection as a retriever of LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from retrieval.collection import Collection
from retrieval.domain.learning.context import Context
from retrieval.surfaces.langchain.bridge import Bridge
from retrieval.surfaces.langchain.documents import documents_of
from retrieval.surfaces.langchain.vector_store import by_profile, every_of

_CONDITIONS = ("where", "filter")


class RetrievalRetriever(BaseRetriever):
    """Searches a collection: ``RetrievalRetriever(collection=platform.collection("docs"), k=5).invoke("words")``.

    ``k`` and ``where``, and every option of ``Collection.search`` in ``search_kwargs``, may be given here or with
    ``invoke``, whose ``where`` (or ``filter``) narrows what is given here. Each document tells under ``_retrieval`` in
    its metadata how it came about, and the ``retrieval_id`` that feedback names, unless ``explain`` is False. Works
    with and without ``await``: see ``Bridge``.
    """

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
        """Raise ``InvalidRequestError`` for what is no collection."""
        super().model_post_init(context)
        self._bridge()

    def _bridge(self) -> Bridge[Collection]:
        """Made for each call: ``collection`` may be another by then, as in a copy."""
        bridge: Bridge[Collection] = Bridge(self.collection)
        return bridge

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        del run_manager  # LangChain gives it to every retriever
        bridge = self._bridge()
        return bridge.run(self._found, bridge.twin, query, **kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        del run_manager  # LangChain gives it to every retriever
        bridge = self._bridge()
        return await bridge.arun(self._found, bridge.twin, query, **kwargs)

    async def _found(self, collection: Collection, query: str, **kwargs: Any) -> list[Document]:
        given: dict[str, Any] = (
            {"k": self.k, "explain": self.explain, "context": self.context} | self.search_kwargs | kwargs
        )
        options = {name: value for name, value in given.items() if name not in _CONDITIONS}
        k, explain = options.pop("k"), options.pop("explain")
        condition = every_of(
            self.where, *(one.get(name) for one in (self.search_kwargs, kwargs) for name in _CONDITIONS)
        )
        result = await by_profile(collection, query, self.k if k is None else k, condition, **options)
        return documents_of(result, explain=self.explain if explain is None else explain)
