"""The vector store and the retriever, beyond LangChain's standard suites."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from anyio.from_thread import BlockingPortal
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.tools import StructuredTool

from retrieval import Context, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import (
    ConfigurationError,
    InvalidItemError,
    InvalidRequestError,
    RunningLoopError,
)
from retrieval.surfaces.langchain import (
    EXPLANATION_KEY,
    Bridge,
    LangChainEmbedder,
    RetrievalEmbeddings,
    RetrievalRetriever,
    RetrievalVectorStore,
)
from retrieval.sync import SyncCollection, SyncPlatform
from retrieval.sync import connect as connect_sync
from tests.support.database import SCHEMA

TEXTS = ["login fails after the update", "the disk is full", "login page is slow", "printer out of paper"]
METADATA: list[dict[str, Any]] = [
    {"source": "a.pdf", "page": 1},
    {"source": "b.pdf", "page": 2},
    {"source": "a.pdf", "page": 10},
    {"source": "c.pdf", "page": None},
]


@pytest.fixture
def store(sync_collection: SyncCollection) -> RetrievalVectorStore:
    """A store with four texts."""
    opened = RetrievalVectorStore(sync_collection)
    opened.add_texts(TEXTS, METADATA, ids=["1", "2", "3", "4"])
    return opened


def ids(documents: list[Document]) -> list[str | None]:
    """Their ids, in order."""
    return [document.id for document in documents]


def test_metadata_come_back_as_they_were_given(store: RetrievalVectorStore) -> None:
    """Any JSON value, under any name, including the names of an item's fields."""
    metadata = {
        "source": "a.pdf", "tags": ["x", "x", "y"], "status": "archived", "kind": 7, "title": "A",
        "nested": {"a": [1, None]},
        "true": True, "float": 0.1, "id": "other", "": "empty", "ü.$'": "", "occurred_at": "soon",
    }  # fmt: skip
    document = Document(page_content="  white\n space ", metadata=metadata)

    [item_id] = store.add_documents([document])

    assert store.get_by_ids([item_id]) == [Document(id=item_id, page_content="  white\n space ", metadata=metadata)]
    [read_back] = store.similarity_search("white space", k=1, filter={"attributes.title": "A"})
    assert read_back.metadata == metadata


def test_an_item_that_was_stored_otherwise_is_a_document_with_its_title_and_fields(
    store: RetrievalVectorStore, sync_collection: SyncCollection
) -> None:
    """The text includes the title, which is in the metadata too, and storing it again changes nothing."""
    sync_collection.add(
        [{"_id": "t", "title": "Timeout", "text": "At peak hours", "tags": ["db"], "metadata": {"priority": "High"}}]
    )

    [document] = store.get_by_ids(["t"])
    store.add_documents([document])

    assert document.page_content == "Timeout\nAt peak hours"
    assert document.metadata == {"title": "Timeout", "tags": ["db"], "priority": "High"}
    assert store.get_by_ids(["t"]) == [document]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"source": "a.pdf"}, {"1", "3"}),
        ({"source": ["b.pdf", "c.pdf"]}, {"2", "4"}),
        ({"page": {"gt": 2}}, {"3"}),
        ({"page": {"exists": False}}, {"4"}),
        ({"page": None}, {"4"}),
        ({"not": {"source": "a.pdf"}, "page": 2}, {"2"}),
        ({"item_id": {"in": ["1", "4"]}}, {"1", "4"}),
        ({"source": "nowhere"}, set()),
    ],
)
def test_filters_are_the_collections_by_either_name(
    store: RetrievalVectorStore, where: dict[str, Any], expected: set[str]
) -> None:
    """``filter`` and ``where`` are the same, and a page is full if enough documents match."""
    assert set(ids(store.similarity_search("login", k=4, filter=where))) == expected
    assert set(ids(store.similarity_search("login", k=4, where=where))) == expected


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"status": "archived"}, {"old"}),
        ({"status": "open"}, {"new"}),
        ({"status": 5}, {"odd"}),
        ({"status": "active"}, {"1", "2", "3", "4", "plain"}),
        ({"created_at": {"lt": "2020-01-01"}}, {"old"}),
        ({"item_id": ["SKU-2", "SKU-3"]}, {"new"}),
        ({"source": 7}, {"odd"}),
        ({"item_id": ["SKU-1", "4"]}, {"old", "4"}),
        ({"not": {"status": ["archived", "active"]}}, {"odd", "new"}),
        ({"source": "z.md"}, {"new"}),
        ({"tags": "x"}, {"old"}),
        ({"tags": {"ne": "x"}}, {"1", "2", "3", "4", "new", "odd", "plain"}),
    ],
)
def test_names_of_fields_in_a_filter_mean_the_documents_metadata(
    store: RetrievalVectorStore, condition: dict[str, Any], found: set[str]
) -> None:
    """They are common names in metadata."""
    metadata: dict[str, dict[str, Any]] = {
        "old": {"status": "archived", "created_at": "2019-05-01", "item_id": "SKU-1", "tags": "x"},
        "new": {"status": "open", "created_at": "2024-05-01", "item_id": "SKU-2", "source": ["y.md", "z.md"]},
        "odd": {"status": 5, "source": 7},
        "plain": {},
    }
    store.add_texts(["word"] * 4, list(metadata.values()), ids=list(metadata))
    assert {document.id for document in store.similarity_search("word", k=9, filter=condition)} == found


def test_a_document_without_a_vector_is_warned_about(fake_settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """No method of LangChain returns a report."""
    embedder = LangChainEmbedder(DeterministicFakeEmbedding(size=5), dimensions=8)
    with connect_sync(settings=fake_settings, embedder=embedder) as platform:
        opened = RetrievalVectorStore(platform.collection(f"docs-{uuid.uuid4()}"))
        assert opened.add_texts(["a car"], ids=["1"]) == ["1"]
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "item '1' is not embedded: " in warning


def test_both_names_of_the_filter_narrow(store: RetrievalVectorStore) -> None:
    """As with a retriever."""
    assert store.similarity_search("login", filter={"page": 1}, where={"page": 2}) == []


def test_a_hit_is_explained_on_request(store: RetrievalVectorStore, sync_platform: SyncPlatform) -> None:
    """The explanation adds up to the score, and its retrieval takes feedback."""
    [(document, score)] = store.similarity_search_with_score("login fails", k=1, explain=True)
    details = document.metadata[EXPLANATION_KEY]

    sync_platform.recorded()
    report = sync_platform.feedback(details["retrieval_id"], document.id or "", helpful=True)

    assert report.recorded == 1
    assert details["rank"] == 1
    assert details["score"] == score
    assert sum(part["value"] for part in details["explanation"]["contributions"]) == pytest.approx(score)
    assert EXPLANATION_KEY not in store.similarity_search("login fails", k=1)[0].metadata
    store.add_documents([document])
    assert EXPLANATION_KEY not in store.get_by_ids([document.id or ""])[0].metadata


def test_relevance_is_the_cosine(store: RetrievalVectorStore) -> None:
    """From 0 to 1, falling, 1 for the very text, and a threshold keeps what reaches it."""
    pairs = store.similarity_search_with_relevance_scores(TEXTS[1], k=4)
    scores = [score for _, score in pairs]
    documents = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.999, "k": 4}
    ).invoke(TEXTS[1])

    assert pairs[0][0].id == "2"
    assert scores[0] == pytest.approx(1, abs=1e-3)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert ids(documents) == ["2"]


def test_without_vectors_there_is_no_relevance(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of words alone searches all the same, and says why it has no relevance."""
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "none")
    monkeypatch.setenv("RETRIEVAL_TENANT", f"tenant-{uuid.uuid4()}")
    with RetrievalVectorStore.from_texts(TEXTS, collection_name="words", url=database_url) as words:
        assert words.similarity_search("printer", k=1)[0].page_content == TEXTS[3]
        with pytest.raises(InvalidRequestError, match="no vectors"):
            words.similarity_search_with_relevance_scores("printer")


def test_maximal_marginal_relevance_leaves_the_alike_out(store: RetrievalVectorStore) -> None:
    """With nothing but difference the second is not the twin of the first; with nothing but relevance it is."""
    store.add_texts([TEXTS[0]], ids=["twin"])
    vector = store.embeddings.embed_query(TEXTS[0])

    different = store.max_marginal_relevance_search(TEXTS[0], k=2, lambda_mult=0.0)
    relevant = store.max_marginal_relevance_search_by_vector(vector, k=2, lambda_mult=1.0)

    assert len(set(ids(different)) & {"1", "twin"}) == 1
    assert set(ids(relevant)) == {"1", "twin"}


async def test_every_search_is_the_same_awaited(store: RetrievalVectorStore) -> None:
    """Methods that begin with ``a`` give the same results as their twins."""
    question, vector = "login", [0.1, -0.4, 0.2, 0.9, 0.3, 0.1]
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("similarity_search", (question,)),
        ("similarity_search_with_score", (question,)),
        ("similarity_search_with_relevance_scores", (question,)),
        ("similarity_search_by_vector", (vector,)),
        ("max_marginal_relevance_search", (question,)),
        ("max_marginal_relevance_search_by_vector", (vector,)),
    ]
    for name, arguments in calls:
        expected = await asyncio.to_thread(getattr(store, name), *arguments, k=3)
        assert await getattr(store, f"a{name}")(*arguments, k=3) == expected
        assert len(expected) == 3


def test_delete_with_no_ids_empties_the_collection(
    store: RetrievalVectorStore, sync_collection: SyncCollection
) -> None:
    """Archived items go too."""
    sync_collection.add([{"_id": "old", "text": "gone", "status": "archived"}])

    store.delete()

    assert sync_collection.get(["1", "2", "3", "4", "old"]) == {}


def test_one_invalid_document_refuses_the_call(store: RetrievalVectorStore) -> None:
    """One bad document refuses the call."""
    with pytest.raises(InvalidItemError, match="NaN"):
        store.add_texts(["a", "b"], [{}, {"n": float("nan")}], ids=["a", "b"])
    with pytest.raises(InvalidRequestError, match="1 ids for 2 documents"):
        store.add_texts(["a", "b"], ids=["a"])

    assert store.get_by_ids(["a", "b"]) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.add_texts("abc"), "texts come in a list"),
        (lambda store: store.add_texts(["a", "b"], ids="ab"), "ids come in a list"),
        (lambda store: store.add_texts(["a"], {"page": 1}), "metadatas come in a list"),
        (lambda store: store.add_documents("abc"), "documents come in a list"),
        (
            lambda store: store.add_documents(["abc"]),
            "a document is a text; it must be a Document; add_texts takes texts",
        ),
        (lambda store: store.get_by_ids("12"), "ids come in a list"),
        (lambda store: store.similarity_search_by_vector(5), "the numbers of an embedding come in a list"),
        (lambda store: store.similarity_search_by_vector("abc"), "the numbers of an embedding come in a list"),
        (lambda store: store.similarity_search("login", k=0), "k is 0; it must be a whole number from 1 to 1,000$"),
        (lambda store: store.max_marginal_relevance_search("login", k=None), "k is None"),
        (lambda store: store.max_marginal_relevance_search("login", fetch_k="20"), "fetch_k is '20'"),
        (lambda store: store.max_marginal_relevance_search("login", lambda_mult=3), "lambda_mult is 3; it must be"),
        (lambda store: store.embeddings.embed_documents("abc"), "texts come in a list"),
        (lambda store: store.embeddings.embed_documents(["a", ""]), "text 2 is empty"),
        (lambda store: store.embeddings.embed_query(5), "query 1 must be text, not int$"),
        (lambda store: store.add_texts(["a"], metadata=[{}]), "no option 'metadata'; there are: ids, batch_size$"),
        (lambda store: store.delete(["1"], id="2"), "no option 'id'; there are: ids$"),
        (lambda store: type(store)(store.collection, explained=True), "no argument 'explained'; did you mean"),
    ],
)
def test_wrong_arguments_are_refused_by_their_names(
    store: RetrievalVectorStore,
    sync_collection: SyncCollection,
    call: Callable[[RetrievalVectorStore], object],
    message: str,
) -> None:
    """The names are LangChain's. A text is an iterable of its characters, which would be stored one by one."""
    with pytest.raises(InvalidRequestError, match=message):
        call(store)
    assert sync_collection.info().items == len(TEXTS)


async def test_a_sync_method_does_not_freeze_a_running_loop(store: RetrievalVectorStore) -> None:
    """It is refused with the way out."""
    with pytest.raises(RunningLoopError, match="await the async one"):
        store.similarity_search("login")


async def test_a_store_on_an_async_collection_answers_in_its_loop_and_from_threads(
    fake_settings: Settings, sync_collection: SyncCollection, store: RetrievalVectorStore
) -> None:
    """A web application awaits it; what LangChain runs in a thread calls the sync methods."""
    embedder = LangChainEmbedder(DeterministicFakeEmbedding(size=6), dimensions=6)
    async with connect(settings=fake_settings, embedder=embedder) as platform:
        same = RetrievalVectorStore(await platform.collection(sync_collection.name))

        awaited = await same.asimilarity_search("login", k=2)
        threaded = await asyncio.to_thread(same.similarity_search, "login", k=2)

    assert awaited == threaded == await store.asimilarity_search("login", k=2)


async def test_awaited_calls_leave_the_threads_to_the_embedder(fake_settings: Settings) -> None:
    """LangChain runs the embeddings in a thread of the loop, of which there are few."""
    embedding = DeterministicFakeEmbedding(size=6)
    vector = embedding.embed_query("login")
    async with connect(settings=fake_settings, embedder=LangChainEmbedder(embedding, dimensions=6)) as platform:
        collection = await platform.collection(f"docs-{uuid.uuid4()}")
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        made = RetrievalVectorStore.afrom_texts(TEXTS, None, METADATA, ids=["1", "2", "3", "4"], collection=collection)
        store = await asyncio.wait_for(made, 30)
        every = asyncio.gather(
            store.amax_marginal_relevance_search("login", k=2),
            store.amax_marginal_relevance_search_by_vector(vector, k=2),
            store.asimilarity_search_by_vector(vector, 2, {"page": 1}),
            store.aget_by_ids(["1"]),
            store.adelete(["4"]),
        )
        different, near, filtered, got, deleted = await asyncio.wait_for(every, 30)

        assert "1" in ids(different)
        assert len(near) == 2
        assert ids(filtered) == ids(got) == ["1"]
        assert deleted


async def test_a_collections_embeddings_embed_for_its_own_space(sync_collection: SyncCollection) -> None:
    """They are the same model, though they are another class."""
    embeddings = RetrievalVectorStore(sync_collection).embeddings

    assert (await asyncio.to_thread(LangChainEmbedder.of, embeddings)).space == await sync_collection.twin.space()


async def test_a_call_that_is_cancelled_is_cancelled_where_it_runs(
    async_elsewhere: tuple[BlockingPortal, Platform],
) -> None:
    """The other loop stops the call."""
    portal, platform = async_elsewhere

    async def made() -> Bridge[Platform]:
        return Bridge(platform)

    bridge = await asyncio.to_thread(portal.call, made)
    began, ended = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def endless() -> None:
        here.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(ended.set)

    call = asyncio.create_task(bridge.arun(endless))
    await began.wait()
    call.cancel()

    await asyncio.wait_for(ended.wait(), 30)
    assert call.cancelled() or call.cancelling()


def test_from_texts_opens_a_platform_of_its_own_and_closes_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The given embeddings become those of its collection, and the documents stay after it is closed."""
    tenant = f"tenant-{uuid.uuid4()}"
    monkeypatch.setenv("RETRIEVAL_TENANT", tenant)
    embedding = DeterministicFakeEmbedding(size=6)
    with RetrievalVectorStore.from_texts(TEXTS, embedding, METADATA, url=database_url) as store:
        assert store.similarity_search(TEXTS[2], k=1)[0].metadata == METADATA[2]
        vector = store.embeddings.embed_query(TEXTS[2])
    with RetrievalVectorStore.from_texts([], embedding, url=database_url) as again:
        assert again.similarity_search_by_vector(vector, k=1)[0].page_content == TEXTS[2]

    with pytest.raises(InvalidRequestError, match="the platform is closed"):
        store.similarity_search("login")


async def test_from_documents_fills_a_collection_that_is_given(sync_collection: SyncCollection) -> None:
    """The embeddings must be the collection's own: vectors of two models are not mixed."""
    document = Document(id="d", page_content="text")
    own = RetrievalEmbeddings(sync_collection)

    for embedding in (own, DeterministicFakeEmbedding(size=6)):
        store = await RetrievalVectorStore.afrom_documents([document], embedding, collection=sync_collection)
        assert await store.aget_by_ids(["d"]) == [document]
    with pytest.raises(ConfigurationError, match="not those of"):
        await RetrievalVectorStore.afrom_documents(
            [document], DeterministicFakeEmbedding(size=7), collection=sync_collection
        )


def test_the_embeddings_of_another_collection_must_be_of_the_same_model(
    sync_collection: SyncCollection, database_url: str
) -> None:
    """Its own, and those of a collection with the same space, may fill a collection."""
    settings = Settings(tenant=f"tenant-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
    with connect_sync(database_url, settings=settings, embedder=HashingEmbedder(64)) as other:
        foreign = RetrievalEmbeddings(other.collection("others"))
        with pytest.raises(ConfigurationError, match="not those of hashing/words"):
            RetrievalVectorStore.from_texts(["text"], foreign, ids=["d"], collection=sync_collection)
    assert sync_collection.get(["d"]) == {}
    store = RetrievalVectorStore.from_texts(
        ["text"], RetrievalEmbeddings(sync_collection), ids=["d"], collection=sync_collection
    )
    assert [document.id for document in store.get_by_ids(["d"])] == ["d"]


def test_the_retriever_explains_and_filters(store: RetrievalVectorStore, sync_collection: SyncCollection) -> None:
    """Options of a call override the retriever's; a filter narrows the retriever's, which often restricts access."""
    retriever = RetrievalRetriever(
        collection=sync_collection,
        k=3,
        where={"source": "a.pdf"},
        search_kwargs={"legs": ["lexical"]},
    )

    output = retriever.invoke("login fails")
    first = retriever.invoke("login fails", filter={"page": 1}, explain=False)

    assert ids(output) == ["1", "3"]
    [parts] = {tuple(part["leg"] for part in document.metadata[EXPLANATION_KEY]["explanation"]["contributions"])
               for document in output}  # fmt: skip
    assert parts == ("lexical",)
    assert first == store.get_by_ids(["1"])
    assert retriever.invoke("disk", where={"source": "b.pdf"}) == []


def test_a_retriever_takes_its_options_where_langchain_gives_them(
    store: RetrievalVectorStore, sync_collection: SyncCollection, sync_platform: SyncPlatform
) -> None:
    """The number of documents is an option; a copy may have another collection; an unknown option is an error."""
    retriever = RetrievalRetriever(collection=sync_collection, search_kwargs={"k": 1, "filter": {"source": "a.pdf"}})
    elsewhere = retriever.model_copy(update={"collection": sync_platform.collection(f"docs-{uuid.uuid4()}")})

    assert ids(retriever.invoke("login")) == ids(store.similarity_search("login", k=1))
    assert elsewhere.invoke("login") == []
    with pytest.raises(InvalidRequestError, match="no option 'fetch_k'; there are: k, filter, about"):
        retriever.invoke("login", fetch_k=5)
    with pytest.raises(InvalidRequestError, match="whatever a profile says"):
        store.similarity_search_with_relevance_scores("login", profile=sync_collection.profile)


def test_searches_are_recorded_with_their_context(
    database_url: str, sync_collection: SyncCollection, sync_platform: SyncPlatform
) -> None:
    """The store's, or that of the call."""
    store = RetrievalVectorStore(sync_collection, explain=True, context=Context(session="s-1"))
    store.add_texts(TEXTS)

    rows = [
        store.similarity_search("login", k=1),
        store.similarity_search("login", k=1, context=Context(session="s-2")),
    ]

    sync_platform.recorded()
    query = "SELECT session FROM retrieval.retrievals WHERE retrieval_id = %s"
    with psycopg.connect(database_url) as connection:
        sessions = [
            connection.execute(query, [document.metadata[EXPLANATION_KEY]["retrieval_id"]]).fetchall()
            for [document] in rows
        ]
    assert sessions == [[("s-1",)], [("s-2",)]]


def test_langchains_index_keeps_a_source_in_step(sync_collection: SyncCollection) -> None:
    """Unchanged documents are skipped, missing ones are deleted."""
    store, records = RetrievalVectorStore(sync_collection), InMemoryRecordManager("docs")
    records.create_schema()
    documents = [Document(page_content=text, metadata={"source": "a"}) for text in TEXTS]

    def kept(documents: list[Document]) -> dict[str, Any]:
        counts = index(documents, records, store, cleanup="full", source_id_key="source", key_encoder="sha256")
        return {name: number for name, number in counts.items() if number}

    assert kept(documents) == {"num_added": 4}
    assert kept(documents[:3]) == {"num_skipped": 3, "num_deleted": 1}
    assert {document.page_content for document in store.similarity_search("login", k=4)} == set(TEXTS[:3])


def test_a_retriever_needs_a_collection() -> None:
    """A name, or anything else, is refused when it is made; so is an argument that it does not have."""
    with pytest.raises(ValueError, match="a collection or a platform is needed"):
        RetrievalRetriever(collection="docs")
    with pytest.raises(ValueError, match="kk"):
        RetrievalRetriever(collection="docs", kk=2)  # type: ignore[call-arg]


def test_the_retriever_mends_typing_and_gives_snippets(
    store: RetrievalVectorStore, sync_collection: SyncCollection
) -> None:
    """The options of a search apply; the snippet is in the document's explanation."""
    assert store.get_by_ids(["1"])
    retriever = RetrievalRetriever(
        collection=sync_collection, k=1, search_kwargs={"legs": ["lexical"], "typos": True, "snippet": 40}
    )
    [document] = retriever.invoke("lgoin")
    assert "login" in document.metadata[EXPLANATION_KEY]["snippet"]["text"].lower()


def test_texts_are_read_in_the_callers_thread(sync_collection: SyncCollection) -> None:
    """A generator may use what belongs to that thread, such as a cursor, and may search the store itself."""
    store = RetrievalVectorStore(sync_collection)
    threads = set()

    def texts() -> Iterator[str]:
        for text in TEXTS:
            threads.add(threading.get_ident())
            store.similarity_search(text, k=1)
            yield text

    assert len(store.add_texts(texts())) == len(TEXTS)
    assert threads == {threading.get_ident()}


def test_a_subclass_that_changes_documents_changes_texts_too(sync_collection: SyncCollection) -> None:
    """As with LangChain's own stores, texts are added as documents."""

    class Tagging(RetrievalVectorStore):
        def add_documents(self, documents: list[Document], **options: Any) -> list[str]:
            marked = [Document(page_content=each.page_content, metadata={"by": "me"}) for each in documents]
            return super().add_documents(marked, **options)

    store = Tagging(sync_collection)

    assert [each.metadata for each in store.get_by_ids(store.add_texts(["a text"]))] == [{"by": "me"}]


def test_methods_have_their_own_names(store: RetrievalVectorStore) -> None:
    """A tool that is made of a method takes its name, and frameworks tell sync and async ones apart."""
    assert StructuredTool.from_function(store.similarity_search).name == "similarity_search"
    assert not inspect.iscoroutinefunction(inspect.unwrap(store.similarity_search))
