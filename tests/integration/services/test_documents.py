"""Documents are stored as chunks, kept up at the price of what changed, and given back as passages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import retrieval.sync
from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.readers.documents import RawDocument
from retrieval.domain.errors import (
    EmbedderUnavailableError,
    InvalidItemError,
    InvalidLimitError,
    InvalidRequestError,
)
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.services import documents
from retrieval.services.add import Writer
from retrieval.services.documents import DocumentsReport
from tests.support.documents import write_handbook

SMALL = Chunking(max_tokens=64, overlap=8)


class ReadingEmbedder(HashingEmbedder):
    """An embedder with a model's limit, which records its texts, and fails on demand."""

    max_tokens = 64

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []
        self.down = False

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """A word is a token, and each text has two more."""
        return [len(text.split()) + 2 for text in texts]

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """The vectors, or ``EmbedderUnavailableError``."""
        if self.down:
            raise EmbedderUnavailableError("the embedder is down; try again")
        self.texts += texts
        return await super().embed(texts, role)


@pytest.fixture
def embedder() -> ReadingEmbedder:
    """An embedder whose model reads 64 tokens."""
    return ReadingEmbedder()


@pytest.fixture
async def docs(database_url: str, settings: Settings, embedder: ReadingEmbedder) -> Any:
    """A collection whose embedder is watched."""
    async with connect(database_url, settings=settings, embedder=embedder) as opened:
        yield await opened.collection("docs")


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A folder of documents."""
    return write_handbook(tmp_path / "handbook")


def section(name: str, number: int = 50) -> str:
    """A section that fills a chunk."""
    return f"## {name}\n\n{' '.join(f'{name.lower()}{at}' for at in range(number))}\n\n"


async def test_a_folder_is_searched_and_a_hit_names_its_document(docs: Collection, handbook: Path) -> None:
    """Title, headings and page, whatever the format; each document once with ``group_by``."""
    report = await docs.ingest_documents(handbook)

    assert (report.added, report.failed, report.empty) == (6, (), ("handbook/team/empty.md",))
    assert report.skipped == {"hidden": 1, ".png": 1}
    [hit] = await docs.search("flights permit", where={"document": "handbook/policy.pdf"}, limit=1)
    attributes = {name: hit.attributes[name] for name in ("document", "document_title", "headings", "page")}
    assert attributes == {"document": "handbook/policy.pdf", "document_title": "Travel", "headings": [], "page": 1}
    hits = await docs.search("30 days", group_by="document", limit=10)
    documents = [hit.attributes["document"] for hit in hits]
    assert len(documents) == len(set(documents)) == 6


async def test_an_unchanged_document_costs_nothing(docs: Collection, embedder: ReadingEmbedder, handbook: Path) -> None:
    """No write, no embedding, and it is not even parsed."""
    first = await docs.ingest_documents(handbook)
    before = {row.item.item_id: row.version for row in await docs.page()}
    embedder.texts.clear()

    again = await docs.ingest_documents([handbook])

    assert (again.added, again.changed, again.unchanged, again.empty) == (0, 0, 6, first.empty)
    assert embedder.texts == []
    assert {row.item.item_id: row.version for row in await docs.page()} == before


async def test_of_a_changed_document_only_new_chunks_are_embedded(
    docs: Collection, embedder: ReadingEmbedder, tmp_path: Path
) -> None:
    """Inserted text changes no other chunk; removed chunks are deleted, and the others keep their ids."""
    file = tmp_path / "long.md"
    file.write_text("# Long\n\n" + "".join(map(section, ("A", "B", "C"))))
    first = await docs.ingest_documents(file)
    ids = [row.item.item_id for row in await docs.page()]
    embedder.texts.clear()

    file.write_text("# Long\n\n" + "".join(map(section, ("New", "A", "C"))))
    second = await docs.ingest_documents(file)

    assert (first.added, first.chunks.added) == (1, 3)
    assert (second.changed, second.chunks.added, second.chunks_removed) == (1, 1, 1)
    assert [text.split("\n")[0] for text in embedder.texts] == ["Long › New"]
    chunks = sorted([item.item for item in await docs.page()], key=lambda item: item.attributes["chunk"])
    assert [chunk.attributes["headings"][-1] for chunk in chunks] == ["New", "A", "C"]
    assert len(set(ids) & {chunk.item_id for chunk in chunks}) == 2


async def test_another_size_splits_every_document_again(docs: Collection, handbook: Path) -> None:
    """Chunks of another size do not meet the request; a size beyond the model's input makes no difference."""
    await docs.ingest_documents(handbook)
    assert (await docs.ingest_documents(handbook, chunking=Chunking(max_tokens=1000))).unchanged == 6

    assert (await docs.ingest_documents(handbook, chunking=SMALL)).changed == 6
    assert (await docs.ingest_documents(handbook, chunking=SMALL)).unchanged == 6


async def test_a_missing_document_is_reported_and_removed_only_on_request(docs: Collection, handbook: Path) -> None:
    """Documents of other folders stay in any case."""
    await docs.add_documents([{"id": "elsewhere", "text": "Another document."}])
    await docs.ingest_documents(handbook)
    (handbook / "policy.pdf").unlink()

    report = await docs.ingest_documents(handbook)
    assert (report.vanished, report.removed) == (("handbook/policy.pdf",), 0)
    pruned = await docs.ingest_documents(handbook, prune=True)
    assert (pruned.vanished, pruned.removed, pruned.chunks_removed) == (("handbook/policy.pdf",), 1, 1)
    documents = {item.item.attributes["document"] for item in await docs.page()}
    assert "handbook/policy.pdf" not in documents
    assert {"elsewhere", "handbook/note.docx"} <= documents


def emptied(folder: Path) -> None:
    """As where a disk is missing."""
    folder.rename(folder.with_name("away"))
    folder.mkdir()


async def test_nothing_is_pruned_of_an_empty_folder(docs: Collection, handbook: Path) -> None:
    """It is more likely that a disk is missing."""
    await docs.ingest_documents(handbook)
    emptied(handbook)

    report = await docs.ingest_documents(handbook, prune=True)

    assert (len(report.vanished), report.removed) == (6, 0)
    assert [name for name, _ in report.failed] == ["handbook"]
    assert "holds no document, as where a disk is not mounted, so nothing of it was pruned" in report.failed[0][1]


async def test_a_full_folder_beside_an_empty_one_is_pruned_alone(docs: Collection, tmp_path: Path) -> None:
    """The documents of the empty one stay."""
    each = [write_handbook(tmp_path / "one"), write_handbook(tmp_path / "two")]
    await docs.ingest_documents(each)
    emptied(each[0])
    (each[1] / "policy.pdf").unlink()

    report = await docs.ingest_documents(each, prune=True)

    assert (report.removed, [name for name, _ in report.failed]) == (1, ["one"])


async def test_folders_of_one_name_do_not_take_each_others_documents(docs: Collection, tmp_path: Path) -> None:
    """The second folder is refused without a name of its own; so is a folder that moved."""
    first, two = write_handbook(tmp_path / "a" / "docs"), write_handbook(tmp_path / "b" / "docs")
    await docs.ingest_documents(first, prune=True)
    with pytest.raises(InvalidRequestError, match=r"are of another folder of that name.* give --name docs"):
        await docs.ingest_documents(two, prune=True)
    assert (await docs.ingest_documents(two, name="docs-b", prune=True)).added == 6
    (two / "backups.md").unlink()

    assert (await docs.ingest_documents(first, prune=True)).unchanged == 6
    pruned = await docs.ingest_documents(two, name="docs-b", prune=True)
    assert (pruned.vanished, pruned.removed) == (("docs-b/backups.md",), 1)
    assert (await docs.ingest_documents(first)).unchanged == 6


async def test_a_folder_that_moved_is_known_by_its_name(
    docs: Collection, embedder: ReadingEmbedder, handbook: Path, tmp_path: Path
) -> None:
    """Nothing is embedded again, and vanished documents are reported."""
    await docs.ingest_documents(handbook)
    moved = write_handbook(tmp_path / "elsewhere")
    (moved / "policy.pdf").unlink()
    embedder.texts.clear()

    report = await docs.ingest_documents(moved, name="handbook", prune=True)

    assert (report.changed, report.removed, embedder.texts) == (5, 1, [])
    assert (await docs.ingest_documents(moved, name="handbook")).unchanged == 5
    assert (await docs.info()).items == 5


async def test_pruning_leaves_documents_that_a_program_added(docs: Collection, handbook: Path) -> None:
    """Their ids do not matter."""
    await docs.add_documents([{"id": "handbook/of/a/program.md", "text": "Another document."}])
    report = await docs.ingest_documents(handbook, prune=True)
    assert (report.vanished, report.removed) == ((), 0)


@pytest.mark.parametrize("name", ["", "/", "a/", " ", "a\nb", "a\x00", 5])
async def test_a_folders_name_is_a_text_on_a_line(docs: Collection, handbook: Path, name: Any) -> None:
    """Ids of documents begin with it."""
    with pytest.raises(InvalidRequestError, match="it must be a text"):
        await docs.ingest_documents(handbook, name=name)


async def test_a_name_is_for_one_folder(docs: Collection, handbook: Path, tmp_path: Path) -> None:
    """Two under one name would be one."""
    with pytest.raises(InvalidRequestError, match="name is for one folder or file"):
        await docs.ingest_documents([handbook, tmp_path], name="x")
    with pytest.raises(InvalidRequestError, match="are both called 'handbook'"):
        await docs.ingest_documents([handbook, write_handbook(tmp_path / "b" / "handbook")])


async def test_an_unreadable_document_is_reported_and_the_others_stored(docs: Collection, handbook: Path) -> None:
    """Its stored chunks stay."""
    await docs.ingest_documents(handbook)
    (handbook / "policy.pdf").write_bytes(b"%PDF-1.4 broken")
    (handbook / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    (handbook / "backups.md").write_text("# Backups\n\nKept for a year.")

    report = await docs.ingest_documents(handbook, prune=True)

    assert [name for name, _ in report.failed] == ["handbook/latin.txt", "handbook/policy.pdf"]
    assert (report.changed, report.removed) == (1, 0)
    assert (await docs.search("flights", limit=1))[0].attributes["document"] == "handbook/policy.pdf"


async def test_an_emptied_document_has_no_chunks(docs: Collection, handbook: Path) -> None:
    """Its former chunks are removed."""
    await docs.ingest_documents(handbook)
    (handbook / "backups.md").write_text("")

    report = await docs.ingest_documents(handbook)

    assert report.empty == ("handbook/backups.md", "handbook/team/empty.md")
    assert (await docs.info()).items == 5


async def test_a_document_whose_storing_broke_off_is_stored_again(docs: Collection, tmp_path: Path) -> None:
    """The first chunk, stored last, marks the document as complete."""
    file = tmp_path / "long.md"
    file.write_text("".join(map(section, "ABC")))
    await docs.ingest_documents(file)
    [first] = [row.item.item_id for row in await docs.page(where={"chunk": 0})]
    await docs.delete([first])

    report = await docs.ingest_documents(file)

    assert (report.added, report.chunks.added, report.chunks.unchanged) == (1, 1, 2)


@pytest.mark.parametrize("is_known", [True, False], ids=["a stored document", "a new document"])
async def test_no_chunk_of_a_former_text_stays_where_storing_broke_off(
    docs: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """Whether storing broke off before the first chunk or, with this text, before the removal of former chunks."""
    file = tmp_path / "long.md"
    if is_known:
        file.write_text("".join(map(section, "ABC")))
        await docs.ingest_documents(file)

    async def broken(*_: object) -> None:
        raise OSError("the disk is full")

    file.write_text("".join(map(section, "ADE")))
    with monkeypatch.context() as patch:
        patch.setattr(documents if is_known else Writer, "change" if is_known else "embed_pending", broken)
        with pytest.raises(OSError, match="the disk"):
            await docs.ingest_documents(file)
    if not is_known:
        [first] = [row.item.item_id for row in await docs.page(where={"chunk": 0})]
        await docs.delete([first])
        file.write_text("".join(map(section, "AF")))
    await docs.ingest_documents(file)

    texts = [row.item.text.split()[0] for row in await docs.page()]
    assert sorted(texts) == (["a0", "d0", "e0"] if is_known else ["a0", "f0"])


async def test_a_document_is_new_to_the_caller_that_stored_it_first(
    docs: Collection, embedder: ReadingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another caller stores one of two documents while they are embedded: the other one is new, and only this one."""
    shared, own = ({"id": name, "text": f"The {name} document."} for name in ("shared", "own"))
    others: list[DocumentsReport] = []
    embed = embedder.embed

    async def embed_late(texts: Sequence[str], role: TextRole) -> Vectors:
        monkeypatch.setattr(embedder, "embed", embed)
        others.append(await docs.add_documents([shared]))
        return await embed(texts, role)

    monkeypatch.setattr(embedder, "embed", embed_late)
    report = await docs.add_documents([shared, own])
    assert [(each.added, each.unchanged) for each in (*others, report)] == [(1, 0), (1, 1)]


async def _chunks(docs: Collection) -> list[str]:
    """The first words of all chunks, which name their sections."""
    return sorted(row.item.text.split()[0] for row in await docs.page())


@pytest.mark.parametrize("is_known", [True, False], ids=["a stored document", "a new document"])
@pytest.mark.parametrize("is_removed", [True, False], ids=["removes it", "stores another text"])
async def test_a_document_is_whole_whatever_another_caller_does_meanwhile(
    docs: Collection, embedder: ReadingEmbedder, monkeypatch: pytest.MonkeyPatch, *, is_known: bool, is_removed: bool
) -> None:
    """The caller that stores it last replaces everything: no chunk of the other's text stays, and none is missing."""
    text, other = ({"id": "shared", "text": "".join(map(section, names))} for names in ("ABD", "ABE"))
    if is_known:
        await docs.add_documents([{"id": "shared", "text": "".join(map(section, "ABC"))}])
    embed = embedder.embed

    async def embed_late(texts: Sequence[str], role: TextRole) -> Vectors:
        monkeypatch.setattr(embedder, "embed", embed)
        await (docs.delete_documents(["shared"]) if is_removed else docs.add_documents([other]))
        return await embed(texts, role)

    monkeypatch.setattr(embedder, "embed", embed_late)
    await docs.add_documents([text])
    assert await _chunks(docs) == ["a0", "b0", "d0"]


async def test_of_texts_that_are_stored_at_once_one_stays(docs: Collection) -> None:
    """Each caller's last transaction replaces what the others have stored by then."""
    texts = [[f"{name}{part}" for part in "uvw"] for name in "ABCD"]
    documents = [{"id": "shared", "text": "".join(section(name) for name in names)} for names in texts]
    await asyncio.gather(*(docs.add_documents([document]) for document in documents))
    assert await _chunks(docs) in [[f"{name.lower()}0" for name in names] for names in texts]


async def test_chunks_without_vectors_get_them_by_the_next_run(
    docs: Collection, embedder: ReadingEmbedder, handbook: Path
) -> None:
    """An embedder that is away keeps no document from being found by its words."""
    embedder.down = True
    first = await docs.ingest_documents(handbook)
    assert (first.chunks.embedded, first.chunks.pending) == (0, 6)
    assert (await docs.search("flights", limit=1))[0].attributes["document"] == "handbook/policy.pdf"

    embedder.down = False
    second = await docs.ingest_documents(handbook)
    assert (second.unchanged, second.chunks.embedded, second.chunks.pending) == (6, 6, 0)


async def test_every_chunk_is_read_whole_by_the_model(docs: Collection, embedder: ReadingEmbedder) -> None:
    """This holds for any requested size, and for any length of title and headings."""
    text = f"# {'long ' * 200}\n\n" + "".join(section(name, 200) for name in "AB")
    report = await docs.add_documents([{"id": "x", "text": text}], chunking=Chunking(max_tokens=5000))

    assert report.chunks.cut == 0
    assert max(embedder.count_tokens(embedder.texts)) <= 64


async def test_items_longer_than_the_model_reads_are_reported(docs: Collection) -> None:
    """Once, when they are embedded."""
    items = [{"id": "long", "text": "word " * 63}, {"id": "short", "text": "word " * 62}]

    assert (await docs.add(items)).cut == 1
    assert (await docs.add(items)).as_dict()["cut"] == 0


async def test_documents_are_given_as_dictionaries(docs: Collection) -> None:
    """With metadata to filter by."""
    records: list[dict[str, Any]] = [
        {"id": "faq", "text": "# Questions\n\nWhy?", "metadata": {"team": "ops"}},
        {"id": "page", "text": "<h1>Hello</h1><p>World</p>", "format": "html", "title": "Mine"},
        {"id": "bad", "text": "x", "format": "gif"},
    ]
    report = await docs.add_documents(records)

    assert report.added == 2
    assert [name for name, _ in report.failed] == ["bad"]
    [hit] = await docs.search("why", where={"team": "ops"})
    assert (hit.title, hit.attributes["document"]) == ("Questions", "faq")
    assert (await docs.add_documents(records)).unchanged == 2
    assert await docs.delete_documents(["faq", "faq", "nothing"]) == 1
    assert [item.item.attributes["document"] for item in await docs.page()] == ["page"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "come in a list"),
        ({"id": "a", "text": "b"}, "come in a list"),
        ([{"id": "a"}], "'text' must be a text"),
        ([{"text": "a"}], "'id' must be a text"),
        ([{"id": "a", "text": "b", "body": "c"}], "a document has no 'body'"),
        ([{"id": "a", "text": "b", "metadata": 3}], "metadata must be an object"),
        ([3], "not int"),
        ([{"id": "a\0", "text": "b"}], "is not a document's id"),
        ([RawDocument(document_id="a\ud800", data=b"b", format="text")], "is not a document's id"),
    ],
)
async def test_an_invalid_document_is_refused(docs: Collection, value: Any, message: str) -> None:
    """Before anything is stored."""
    with pytest.raises(InvalidItemError, match=message):
        await docs.add_documents(value)


async def test_a_repeated_document_is_reported(docs: Collection) -> None:
    """The last one is kept."""
    report = await docs.add_documents([{"id": "a", "text": "one"}, {"id": "a", "text": "two"}])
    assert report.notes == ("1 id appears more than once ('a'); the last of each was kept",)
    assert [row.item.body for row in await docs.page()] == ["two"]


async def test_metadata_that_no_item_can_have_fails_that_document_alone(docs: Collection) -> None:
    """As a document that cannot be read does."""
    documents: list[dict[str, Any]] = [
        {"id": "a", "text": "one", "metadata": {"x": float("nan")}},
        {"id": "b", "text": "one", "metadata": {1: "x", "y": 2}},
        {"id": "c", "text": "two"},
    ]
    report = await docs.add_documents(documents)

    assert (report.added, [name for name, _ in report.failed]) == (1, ["a", "b"])


async def test_passages_are_joined_within_the_budget(docs: Collection) -> None:
    """Hits come first, then their neighbours, as one text without the overlap."""
    body = " ".join(f"word{at}." if at % 10 == 9 else f"word{at}" for at in range(150))
    await docs.add_documents([{"id": "long", "text": f"# Long\n\n{body}"}, {"id": "other", "text": "# Else\n\nword70"}])

    passages = await docs.passages("word70", limit=2, max_tokens=400, around=3)
    assert sorted(passage.document for passage in passages) == ["long", "other"]
    [long] = [passage for passage in passages if passage.document == "long"]
    assert long.text.split() == body.split()
    assert passages.tokens == len(passages.text.split()) + 2 <= 400
    assert passages.retrieval_id is not None

    small = await docs.passages(
        "word70", limit=2, max_tokens=100, around=3, count_tokens=lambda text: len(text.split())
    )
    assert 0 < small.tokens <= 100
    assert [passage.cut for passage in small] == [False, True]
    assert small.left_out == 0


async def test_a_function_that_counts_no_tokens_is_refused(docs: Collection) -> None:
    """The message says what it gave."""
    await docs.add_documents([{"id": "long", "text": "word70"}])
    with pytest.raises(InvalidRequestError, match="count_tokens gave None; it must give the number of tokens"):
        await docs.passages("word70", count_tokens=lambda _: None)  # type: ignore[arg-type, return-value]


async def test_a_best_hit_larger_than_the_budget_is_cut_around_the_words(docs: Collection) -> None:
    """The next hit would fit, but does not replace it."""
    long = " ".join(["other"] * 300 + ["the answer is forty two"] + ["other"] * 300)
    await docs.add([{"id": "long", "text": long}, {"id": "short", "text": "one other answer"}])

    passages = await docs.passages("forty two answer", max_tokens=100, limit=2)

    assert [(passage.document, passage.cut) for passage in passages] == [("long", True)]
    assert "the answer is forty two" in passages[0].text
    assert (passages[0].text[0], passages[0].text[-1]) == ("…", "…")
    assert 90 < passages.tokens <= 100
    assert passages.left_out == 1


@pytest.mark.parametrize("arguments", [{"max_tokens": 99}, {"around": 11}, {"around": True}, {"max_tokens": 1.5}])
async def test_numbers_outside_their_range_are_refused(docs: Collection, arguments: Any) -> None:
    """The message says what the range is."""
    with pytest.raises(InvalidLimitError, match=r"must be a whole number from (0|100) to"):
        await docs.passages("x", **arguments)


async def test_a_chunking_is_a_chunking(docs: Collection) -> None:
    """A number alone says too little."""
    with pytest.raises(InvalidRequestError, match="must be a Chunking"):
        await docs.add_documents([{"id": "a", "text": "b"}], chunking=100)  # type: ignore[arg-type]


async def test_a_collection_without_vectors_has_documents_too(platform: Platform, tmp_path: Path) -> None:
    """Their tokens are estimated."""
    (tmp_path / "a.txt").write_text("word " * 2000)
    words = await platform.collection("words", space=None)
    report = await words.ingest_documents(tmp_path / "a.txt")

    assert report.chunks.added > 5
    assert (await words.passages("word", max_tokens=500)).tokens <= 500


async def test_a_long_document_shows_how_far_it_is(docs: Collection, tmp_path: Path) -> None:
    """By the vectors of its chunks, before it is done."""
    (tmp_path / "a.txt").write_text("word " * 8000)
    progress: list[tuple[float, int]] = []
    report = await docs.ingest_documents(
        tmp_path / "a.txt", progress=lambda so_far, done, total: progress.append((done / total, so_far.chunks.embedded))
    )
    chunks = report.chunks.embedded
    assert progress == [(0, 0), (128 / chunks, 128), (1, chunks), (1, chunks)]


async def test_files_that_are_read_slowly_show_how_many_are_done(
    docs: Collection, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before as many are read as are stored together."""
    monkeypatch.setattr(documents, "_BATCH_SECONDS", 0.0)
    progress: list[float] = []
    await docs.ingest_documents(handbook, progress=lambda _, done, __: progress.append(done))
    assert set(range(8)) <= set(progress)


def test_the_sync_door_does_the_same(database_url: str, settings: Settings, handbook: Path) -> None:
    """Without ``await``, with progress."""
    progress: list[tuple[float, int, int]] = []

    def follow(report: DocumentsReport, share: float, total: int) -> None:
        progress.append((share, total, report.chunks.embedded))

    with retrieval.sync.connect(database_url, settings=settings, embedder=ReadingEmbedder()) as platform:
        docs = platform.collection("docs")
        report = docs.ingest_documents(handbook, progress=follow)
        assert (report.added, progress[0], progress[-1]) == (6, (0, 7, 0), (7, 7, report.chunks.embedded))
        assert docs.add_documents([{"id": "a", "text": "b"}]).added == 1
        assert "coffee" in docs.passages("who cleans the coffee machine?").text
        assert docs.delete_documents(["a"]) == 1
