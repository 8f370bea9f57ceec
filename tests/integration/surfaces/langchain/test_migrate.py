"""A store of langchain-postgres becomes a collection: on tables as its releases make them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from retrieval import Settings, connect
from retrieval.domain.errors import (
    ConfigurationError,
    DatabaseUnreachableError,
    InvalidItemError,
    InvalidRequestError,
    NotFoundError,
    WrongDimensionError,
)
from retrieval.surfaces.cli.app import run_program
from retrieval.surfaces.langchain import RetrievalVectorStore
from retrieval.surfaces.langchain.migrate import CopyReport, LangChainStore, copy_store
from retrieval.sync import SyncCollection, SyncPlatform

# As created by ``PGVector`` of 0.0.7 and later.
V1 = """
    CREATE TABLE langchain_pg_collection (uuid uuid PRIMARY KEY, name varchar NOT NULL UNIQUE, cmetadata json);
    CREATE TABLE langchain_pg_embedding (
        id varchar PRIMARY KEY, collection_id uuid REFERENCES langchain_pg_collection, embedding vector,
        document varchar, cmetadata jsonb);
"""
# As created by earlier releases.
FORMER = """
    CREATE TABLE langchain_pg_collection (uuid uuid PRIMARY KEY, name varchar, cmetadata json);
    CREATE TABLE langchain_pg_embedding (
        collection_id uuid REFERENCES langchain_pg_collection, embedding vector, document varchar, cmetadata json,
        custom_id varchar, uuid uuid PRIMARY KEY);
"""
# As created by ``PGEngine.init_vectorstore_table``, with metadata columns and hybrid search.
V2 = """
    CREATE TABLE documents (
        langchain_id uuid PRIMARY KEY, content text NOT NULL, embedding vector(6) NOT NULL, source text, page integer,
        added timestamptz, price numeric, content_tsv tsvector, langchain_metadata json);
"""
NAMED = """
    CREATE TABLE "100%s" (
        key text PRIMARY KEY, "the ""body"" %b" text NOT NULL, "%(vec)s" vector(6) NOT NULL, meta json,
        "part %" integer);
"""


class Source:
    """A schema of the source, and its content."""

    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self.connection, self.url = connection, url
        self.schema = f"source_{uuid.uuid4().hex}"
        name = sql.Identifier(self.schema)
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        connection.execute(sql.SQL("SET search_path = {}, public").format(name))

    def collection(self, name: str) -> str:
        """A collection of ``PGVector``, by its number."""
        number = str(uuid.uuid4())
        self.connection.execute("INSERT INTO langchain_pg_collection VALUES (%s, %s, NULL)", [number, name])
        return number

    def document(self, number: str, key: str, text: str | None, vector: object, metadata: object = None) -> None:
        """A document of ``PGVector``."""
        self.connection.execute(
            "INSERT INTO langchain_pg_embedding VALUES (%s, %s, %s, %s, %s)",
            [key, number, None if vector is None else str(vector), text, json.dumps(metadata)],
        )

    def store(self, **options: Any) -> LangChainStore:
        """The store to read."""
        return LangChainStore(schema=self.schema, **options)


@pytest.fixture
def source(database_url: str) -> Iterator[Source]:
    """An empty one."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        store = Source(connection, database_url.replace("postgresql://", "postgresql+psycopg://"))
        yield store
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(store.schema)))


@pytest.fixture
def docs(source: Source) -> Source:
    """A source with five documents in the collection ``docs``, and one elsewhere."""
    source.connection.execute(V1)
    number, other = source.collection("docs"), source.collection("other")
    for place in range(5):
        metadata = {"source": "a.pdf", "page": place, "nested": {"a": [1, None]}}
        source.document(number, f"d{place}", f"text {place}", [place + 1, 1, 0, -2, 0.5, 3], metadata)
    source.document(other, "elsewhere", "text", [1, 2, 3, 4, 5, 6])
    return source


def copied(source: Source, store: LangChainStore, target: SyncCollection, **options: Any) -> CopyReport:
    """One copy."""
    return target.door.run(copy_store, source.url, store, target.twin, **options)


def test_ids_texts_metadata_and_vectors_are_as_they_were(docs: Source, sync_collection: SyncCollection) -> None:
    """Only the named collection is copied, without new embeddings."""
    report = copied(docs, docs.store(name="docs"), sync_collection)

    assert report == CopyReport(read=5, copied=5)
    [document] = RetrievalVectorStore(sync_collection).get_by_ids(["d3"])
    assert (document.page_content, document.metadata) == (
        "text 3",
        {"source": "a.pdf", "page": 3, "nested": {"a": [1, None]}},
    )
    assert sync_collection.get(["elsewhere"]) == {}
    vector = np.array([4, 1, 0, -2, 0.5, 3]) / np.linalg.norm([4, 1, 0, -2, 0.5, 3])
    np.testing.assert_allclose(sync_collection.embeddings(["d3"])["d3"], vector, atol=1e-3)


def test_another_copy_changes_what_has_changed(docs: Source, sync_collection: SyncCollection) -> None:
    """A text, metadata, a single vector, or a new document; the rest stays."""
    copied(docs, docs.store(name="docs"), sync_collection)
    docs.connection.execute("UPDATE langchain_pg_embedding SET document = 'other' WHERE id = 'd0'")
    docs.connection.execute("UPDATE langchain_pg_embedding SET cmetadata = '{\"page\": 9}' WHERE id = 'd1'")
    docs.connection.execute("UPDATE langchain_pg_embedding SET embedding = '[-1,1,1,1,1,1]' WHERE id = 'd2'")

    report = copied(docs, docs.store(name="docs"), sync_collection)

    assert report == CopyReport(read=5, copied=3, unchanged=2)
    items = sync_collection.get(["d0", "d1"])
    assert (items["d0"].body, dict(items["d1"].attributes)) == ("other", {"page": 9})
    assert sync_collection.embeddings(["d2"])["d2"][0] < 0


def test_an_interrupted_copy_is_completed_by_another(docs: Source, sync_collection: SyncCollection) -> None:
    """The pages that were stored stay, and are not copied again."""

    def interrupt(report: CopyReport) -> None:
        if report.read >= 2:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        copied(docs, docs.store(name="docs"), sync_collection, page=2, progress=interrupt)

    assert copied(docs, docs.store(name="docs"), sync_collection, page=2) == CopyReport(read=5, copied=3, unchanged=2)


def test_documents_without_a_usable_vector_are_embedded(docs: Source, sync_collection: SyncCollection) -> None:
    """One that is missing, or has no direction; a missing text is an empty one."""
    docs.connection.execute("UPDATE langchain_pg_embedding SET embedding = NULL WHERE id = 'd0'")
    docs.connection.execute("UPDATE langchain_pg_embedding SET embedding = '[0,0,0,0,0,0]' WHERE id = 'd1'")
    docs.connection.execute("UPDATE langchain_pg_embedding SET document = NULL, cmetadata = NULL WHERE id = 'd2'")

    report = copied(docs, docs.store(name="docs"), sync_collection)

    assert report == CopyReport(read=5, copied=5, without_vector=2)
    assert len(sync_collection.embeddings([item.item_id for item in sync_collection.scan()])) == 5
    assert sync_collection.get(["d2"])["d2"].body == ""


def test_a_document_that_cannot_be_stored_stops_or_is_left_out(docs: Source, sync_collection: SyncCollection) -> None:
    """As the caller wants."""
    docs.connection.execute("UPDATE langchain_pg_embedding SET id = repeat('x', 600) WHERE id = 'd1'")
    left_out: list[tuple[str, str]] = []

    with pytest.raises(InvalidItemError, match="512 bytes"):
        copied(docs, docs.store(name="docs"), sync_collection)
    report = copied(
        docs, docs.store(name="docs"), sync_collection, rejected=lambda name, why: left_out.append((name, why))
    )

    assert report == CopyReport(read=5, copied=4, rejected=1)
    [(name, why)] = left_out
    assert name == "x" * 600
    assert "512 bytes" in why


def test_the_tables_of_former_releases_are_read_too(source: Source, sync_collection: SyncCollection) -> None:
    """If the caller gave no id, or one that another document has too, the key is it."""
    source.connection.execute(FORMER)
    number, (first, again, key) = source.collection("docs"), sorted(str(uuid.uuid4()) for _ in range(3))
    for custom, own in (("mine", again), ("mine", first), (None, key)):
        source.connection.execute(
            "INSERT INTO langchain_pg_embedding VALUES (%s, '[1,2,3,4,5,6]', 'text', '{\"a\": 1}', %s, %s)",
            [number, custom, own],
        )

    for page, report in ((1, CopyReport(read=3, copied=3, renamed=1)), (3, CopyReport(read=3, unchanged=3, renamed=1))):
        assert copied(source, source.store(name="docs"), sync_collection, page=page) == report
    assert set(sync_collection.get(["mine", again, key])) == {"mine", again, key}


def test_a_table_of_its_own_has_metadata_in_columns(source: Source, sync_collection: SyncCollection) -> None:
    """Null columns are left out, the column of hybrid search is not metadata, and the JSON column takes precedence."""
    source.connection.execute(V2)
    first, second = sorted(str(uuid.uuid4()) for _ in range(2))
    source.connection.execute(
        "INSERT INTO documents VALUES (%s, 'one', '[1,2,3,4,5,6]', 'a.pdf', 7, '2024-05-01T08:00Z', 1.5,"
        " to_tsvector('one'), '{\"extra\": {\"k\": null}}'), (%s, 'two', '[6,5,4,3,2,1]', NULL, NULL, NULL, NULL,"
        " NULL, NULL)",
        [first, second],
    )

    report = copied(source, source.store(table="documents"), sync_collection, page=1)

    assert report == CopyReport(read=2, copied=2)
    items = sync_collection.get([first, second])
    attributes = dict(items[first].attributes)
    assert attributes.pop("added").startswith("2024-05-01T")
    assert attributes == {"source": "a.pdf", "page": 7, "price": 1.5, "extra": {"k": None}}
    assert items[second].attributes == {}
    assert [hit.item_id for hit in sync_collection.search("one", legs=["lexical"], where={"source": "a.pdf"})] == [
        first
    ]


def test_columns_may_have_any_names(source: Source, sync_collection: SyncCollection) -> None:
    """The columns of key and vector are found; for a missing one the error lists the columns."""
    source.connection.execute(NAMED)
    source.connection.execute("INSERT INTO \"100%s\" VALUES ('k''1', 'one', '[1,2,3,4,5,6]', '{\"a\": 1}', 7)")
    store = source.store(table="100%s", content_column='the "body" %b', metadata_column="meta")

    assert copied(source, store, sync_collection) == CopyReport(read=1, copied=1)
    assert sync_collection.get(["k'1"])["k'1"].attributes == {"a": 1, "part %": 7}
    with pytest.raises(
        InvalidRequestError, match=r"no column 'content'.*there are key, the \"body\" %b, %\(vec\)s, meta"
    ):
        copied(source, replace(store, content_column=None), sync_collection)


def test_missing_or_incompatible_sources_are_reported(docs: Source, sync_collection: SyncCollection) -> None:
    """Each error lists what exists, or says what to do."""
    with pytest.raises(NotFoundError, match="no collection 'nope'; there are: 'docs', 'other'"):
        copied(docs, docs.store(name="nope"), sync_collection)
    with pytest.raises(NotFoundError, match="no table"):
        copied(docs, docs.store(table="nope"), sync_collection)
    with pytest.raises(InvalidRequestError, match="one of the two"):
        LangChainStore()
    docs.url, url = "postgresql+psycopg://reader:s3cret@localhost:1/nothing", docs.url
    with pytest.raises(DatabaseUnreachableError, match=r"^the source: .*its URL") as raised:
        copied(docs, docs.store(name="docs"), sync_collection)
    assert "s3cret" not in str(raised.value)
    docs.url = "app.db"
    with pytest.raises(ConfigurationError, match="not a URL of PostgreSQL"):
        copied(docs, docs.store(name="docs"), sync_collection)
    docs.url = url
    docs.connection.execute("UPDATE langchain_pg_embedding SET embedding = '[1,2,3]' WHERE id = 'd4'")
    with pytest.raises(WrongDimensionError, match=r"the vector of 'd4' has 3 dimensions"):
        copied(docs, docs.store(name="docs"), sync_collection)


async def test_a_collection_without_vectors_takes_none(docs: Source, database_url: str, settings: Settings) -> None:
    """The message says how to give it a space."""
    async with connect(database_url, settings=settings) as platform:
        words = await platform.collection("words")
        with pytest.raises(InvalidRequestError, match="no embedding space"):
            await copy_store(docs.url, docs.store(name="docs"), words)


def test_the_command_copies_and_counts(
    docs: Source,
    sync_collection: SyncCollection,
    sync_platform: SyncPlatform,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``retrieval import-langchain``, into a collection that is there; a missing source makes none."""
    url = sync_platform.settings.database_url
    assert url is not None
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", url.get_secret_value())
    monkeypatch.setenv("RETRIEVAL_TENANT", sync_platform.settings.tenant)
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "none")
    monkeypatch.setenv("RETRIEVAL_SOURCE_URL", docs.url)

    code = run_program(["import-langchain", sync_collection.name, "--name", "docs", "--schema", docs.schema, "--json"])

    assert code == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload == {"collection": sync_collection.name, "read": 5, "copied": 5, "unchanged": 0, "without_vector": 0,
                    "rejected": 0, "renamed": 0}  # fmt: skip
    assert run_program(["import-langchain", "none", "--name", "nothing", "--schema", docs.schema]) == 1
    assert "no collection 'nothing'" in capsys.readouterr().err
    assert run_program(["import-langchain", "none", "--name", "docs", "--schema", docs.schema]) == 1
    assert "has no embedding space for the vectors" in capsys.readouterr().err
    assert "none" not in [collection.name for collection in sync_platform.collections()]
