"""A collection as a retriever of LangChain."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from retrieval.collection import Collection
from retrieval.domain.context import Context
from retrieval.surfaces.langchain.bridge import Bridge
from retrieval.surfaces.langchain.documents import documents_of
from retrieval.surfaces.langchain.searching import Condition, by_profile


class RetrievalRetriever(BaseRetriever):
    """Searches a collection: ``RetrievalRetriever(collection=platform.collection("docs"), k=5).invoke("words")``.

    ``k`` and ``where``, and every option of ``Collection.search`` in ``search_kwargs``, may be given here or with
    ``invoke``. Each document tells under ``_retrieval`` in its metadata how it came about, and the ``retrieval_id``
    that feedback names, unless ``explain`` is False. Works with and without ``await``: see ``Bridge``.
    """

    collection: Any
    """A ``Collection``, or a ``SyncCollection``."""
    k: int = 4
    """Documents wanted, 1 to 1000."""
    where: Any = None
    """The filter."""
    explain: bool = True
    context: Context = Field(default_factory=Context)
    """What searches are recorded with."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of ``Collection.search``: legs, profile, rewrites, prefer, tags and so on."""
    _bridge: Bridge[Collection] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Raise ``InvalidRequestError`` for what is no collection."""
        super().model_post_init(context)
        self._bridge = Bridge(self.collection)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        del run_manager  # LangChain gives it to every retriever
        return self._bridge.run(self._found, query, **kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        del run_manager  # LangChain gives it to every retriever
        return await self._bridge.arun(self._found, query, **kwargs)

    async def _found(
        self, query: str, *, k: int | None = None, explain: bool | None = None, **kwargs: Any
    ) -> list[Document]:
        options = {"context": self.context} | self.search_kwargs | kwargs
        condition: Condition = None if options.keys() & {"where", "filter"} else self.where
        condition = options.pop("filter", condition)
        result = await by_profile(self._bridge.twin, query, self.k if k is None else k, condition, **options)
        return documents_of(result, explain=self.explain if explain is None else explain)
