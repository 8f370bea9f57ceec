"""From files to hits, with the program."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import pty
import signal
import subprocess
import time
from collections import deque
from pathlib import Path

import pytest

from tests.acceptance.conftest import ROOT, SECONDS, Program, program_in
from tests.support.documents import pdf_of_shared_content, write_handbook
from tests.support.openai_server import SPEECHES, OpenAIServer, status

TICKETS = ROOT / "examples" / "data" / "tickets"
NOTES: list[dict[str, object]] = [
    {"_id": "disk", "title": "Disk full", "text": "The data node stopped.", "priority": "High", "hours": 26},
    {"_id": "login", "title": "Login fails", "text": "The certificate expired.", "priority": "Low", "hours": "26"},
    {"_id": "slow", "title": "Slow reports", "text": "The report takes an hour.", "tags": ["report"], "hours": 3},
]
HISTORY = """\
ticket_id,title,description,priority,labels,resolution_time_hours,domain,resolution,created,resolved
T-1,Login fails,The certificate expired.,High,"Code Fix,#MM",4.5,MM,Renewed it,2024-05-01T08:00Z,2024-05-01T12:30Z
T-2,Login is slow,The directory answers late.,Unheard,,,42,,2024-06-01T08:00Z,
"""


def counts(report: dict[str, object]) -> dict[str, object]:
    """The counts that are not 0."""
    return {name: value for name, value in report.items() if isinstance(value, int) and value}


@pytest.fixture(scope="module")
def notes(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program with three notes, ingested as ``notes``, which no test changes."""
    program = program_in(tmp_path_factory.mktemp("notes"), home)
    program.succeeds("ingest", "notes", program.write("notes.jsonl", *NOTES), "--quiet")
    return program


def test_items_go_in_once(program: Program) -> None:
    """A second run finds nothing to do; a changed item is the only one embedded again."""
    path = program.write("notes.jsonl", *NOTES)
    assert counts(program.json("ingest", "notes", path)) == {"read": 3, "added": 3, "embedded": 3}
    assert counts(program.json("ingest", "notes", path)) == {"read": 3, "unchanged": 3}
    program.write("notes.jsonl", NOTES[0] | {"text": "It runs again."}, *NOTES[1:])
    assert counts(program.json("ingest", "notes", path)) == {"read": 3, "unchanged": 2, "changed": 1, "embedded": 1}


def test_the_summary_is_a_table(program: Program) -> None:
    """A count a line; quietly, not a word."""
    path = program.write("notes.jsonl", *NOTES)
    assert program.succeeds("ingest", "notes", path, "--quiet") == ""
    rows = [line.split() for line in program.succeeds("ingest", "notes", path).splitlines()]
    assert ["read", "3"] in rows
    assert ["unchanged", "3"] in rows


def test_several_files_are_one_input(program: Program) -> None:
    """Also for pruning: what none of them has is archived and no longer found."""
    first, second = program.write("a.jsonl", NOTES[0]), program.write("b.jsonl", *NOTES[1:])
    assert counts(program.json("ingest", "notes", first, second)) == {"read": 3, "added": 3, "embedded": 3}
    assert counts(program.json("ingest", "notes", second, "--prune")) == {"read": 2, "unchanged": 2, "archived": 1}
    assert [hit["id"] for hit in program.json("search", "notes", "disk full")["hits"]].count("disk") == 0


def test_a_search_by_groups_shows_the_best_of_each(program: Program) -> None:
    """One hit a value of the field; a field that no item has is an error."""
    lines = [{"_id": str(number), "text": "disk full", "host": f"h{number % 3}"} for number in range(9)]
    program.succeeds("ingest", "notes", program.write("notes.jsonl", *lines), "-q")
    payload = program.json("search", "notes", "disk full", "--group-by", "host")
    assert sorted(hit["metadata"]["host"] for hit in payload["hits"]) == ["h0", "h1", "h2"]
    assert "exact, 9 rows weighed: no HNSW index" in program.succeeds(
        "search", "notes", "disk", "-g", "host", "--explain"
    )
    assert "did you mean 'host'" in program.fails("search", "notes", "disk full", "-g", "hosts")


def test_standard_input_is_a_file_too(program: Program) -> None:
    """Its format is JSON Lines unless an option names another one."""
    program.succeeds("ingest", "notes", "-", "-q", stdin=json.dumps(NOTES[0]))
    program.succeeds("ingest", "notes", "-", "-q", "--format", "csv", stdin="_id,text\ncsv,certificate\n")
    assert program.json("collections")[0]["items"] == 2


def test_csv_columns_are_mapped(program: Program) -> None:
    """The sample tickets under their own column names."""
    maps = ["--map", "_id=ticket_id", "-m", "title=summary", "-m", "text=description", "-m", "tags=labels"]
    report = program.json("ingest", "tickets", TICKETS / "tickets.csv", *maps)
    assert report["added"] == report["read"] == 20
    assert program.json("search", "tickets", "ABFS", "--where", "priority=Major")["hits"]


def test_lines_that_do_not_fit_the_schema_are_bad_lines(program: Program) -> None:
    """The schema comes from a file, and stays the collection's."""
    (program.folder / "schema.json").write_text('{"properties": {"host": {"type": "string"}}, "required": ["host"]}')
    lines = [{"_id": "1", "text": "disk full", "host": "h1"}, {"_id": "2", "text": "disk full", "host": 7}]
    path = program.write("notes.jsonl", *lines)
    error = program.fails("ingest", "notes", path, "--schema", "schema.json")
    assert program.json("collections", "list") == []
    assert "notes.jsonl:2: item '2' does not fit the collection's schema: attribute 'host': 7 is not of type" in error
    (program.folder / "page.md").write_text("# Disk\n\nThe disk is full.")
    error = program.fails("ingest", "notes", "page.md", "--schema", "schema.json")
    assert "no document can be stored; page.md: item 'page.md#" in error
    assert program.json("collections", "list") == []
    process = program("ingest", "notes", path, "--schema", "schema.json", "--on-error", "skip", "--json")
    assert counts(json.loads(process.stdout)) == {"read": 1, "added": 1, "embedded": 1, "rejected": 1}

    (program.folder / "other.json").write_text("{}")
    assert "was made with another schema, which stays" in program.fails(
        "ingest", "notes", path, "--schema", "other.json"
    )
    missing = program.fails("ingest", "notes", path, "--schema", "none.json")
    assert "cannot read --schema 'none.json': No such file" in missing
    (program.folder / "list.json").write_text("[1]")
    assert "a schema is a JSON Schema" in program.fails("ingest", "x", path, "--schema", "list.json")


def test_a_run_whose_items_have_no_text_fails_and_says_where_it_may_be(program: Program) -> None:
    """A forgotten mapping overwrites no stored text; the suggested column is quoted for a shell."""
    (program.folder / "docs.csv").write_text("Doc No,The words,Year\n1,The flow is laminar,1958\n2,A wing,1960\n")
    named = ("ingest", "docs", "docs.csv", "--map", "_id=Doc No")
    assert program.json(*named, "--map", "text=The words")["added"] == 2

    message = "error: 2 of 2 items have no text; did you mean --map text='The words'?"
    assert program.fails(*named) == message
    assert program.fails(*named, "--on-error", "skip") == message

    assert program.json("search", "docs", "wing")["hits"][0]["id"] == "2"


def test_a_few_items_without_text_are_stored_with_a_note(program: Program) -> None:
    """If other items have a text, no other name for the text is suggested."""
    path = program.write("notes.jsonl", NOTES[0], {"id": "x", "the words": "a certificate"})
    process = program("ingest", "notes", path, "-q")
    assert (process.returncode, process.stdout) == (0, "")
    note = "1 of 2 items has no text; an item's 'title' and 'text' are searched"
    assert process.stderr == f"note: {note}\n"
    assert json.loads(program("ingest", "notes", path, "--json").stdout)["notes"] == [note]


def test_documents_none_of_which_can_be_read_leave_no_collection(program: Program) -> None:
    """The name may be misspelt. Each document has its reason."""
    (program.folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (program.folder / "empty.docx").write_bytes(b"")
    error = program.fails("ingest", "new", "broken.pdf", "empty.docx")
    assert "no document can be stored; broken.pdf: cannot be read as pdf" in error
    assert "; empty.docx: is not a DOCX" in error
    assert "new" not in [entry["name"] for entry in program.json("collections")]


def test_removed_characters_are_reported(program: Program) -> None:
    """On standard error, with what keeps them from being removed, and in the JSON."""
    path = program.write("notes.jsonl", {"id": "x", "title": "a\u202e"}, NOTES[0])
    process = program("ingest", "notes", path, "--json")
    report = json.loads(process.stdout)
    assert (report["cleaned"], process.stderr) == (1, f"note: {report['notes'][0]}\n")
    assert "removed: 1; --no-clean refuses their lines" in process.stderr


def test_one_item_without_text_is_stored_with_a_note(program: Program) -> None:
    """It may be meant."""
    program.succeeds("ingest", "notes", program.write("notes.jsonl", NOTES[0]))
    process = program("items", "put", "notes", '{"id": "x", "words": "a certificate"}', "--json")
    assert (process.returncode, json.loads(process.stdout)["result"]) == (0, "added")
    assert process.stderr == "note: 1 of 1 item has no text; if 'words' holds it, call that 'text'\n"


def test_json_lines_are_mapped_and_usual_names_need_no_mapping(program: Program) -> None:
    """Usual names of an item's text are recognised, and a mapping adds others."""
    path = program.write("a.jsonl", {"id": "1", "page_content": "disk"}, {"id": "2", "content": "certificate"})
    program.succeeds("ingest", "notes", path, "-q")
    path = program.write("b.jsonl", {"key": "3", "meta": 1, "metadata": {"words": "a printer"}})
    program.succeeds("ingest", "notes", path, "-q", "--map", "_id=key", "--map", "text=words")
    ids = [program.json("search", "notes", word)["hits"][0]["id"] for word in ("disk", "certificate", "printer")]
    assert ids == ["1", "2", "3"]


def test_items_without_ids_get_them_by_their_content(program: Program, tmp_path: Path) -> None:
    """They get them on request; the refusal says how."""
    file = tmp_path / "notes.jsonl"
    file.write_text('{"text": "first note"}\n{"_id": "b", "text": "second note"}\n{"text": "first note"}\n')
    assert "make ids of the texts: --id-from text" in program.fails("ingest", "notes", file)
    output = program.succeeds("ingest", "notes", file, "--id-from", "text")
    assert "gets a hash of text as id" in output
    assert "1 id appears more than once" in output
    again = program.json("ingest", "notes", file, "--id-from", "text")
    assert (again["added"], again["unchanged"], again["repeated"]) == (0, 2, 1)


def test_an_empty_source_is_reported(program: Program, tmp_path: Path) -> None:
    """A file without items, and a folder without documents; both may be meant, so the run succeeds.

    No collection is made: the name may be misspelt.
    """
    file, folder = tmp_path / "none.csv", tmp_path / "folder"
    file.write_text("id,text\n")
    folder.mkdir()
    assert f"there are no items in {file}" in program("ingest", "notes", file).stderr
    assert f"there are no documents in {folder}" in program("ingest", "notes", folder).stderr
    assert program.json("collections") == []


def test_a_bad_line_stops_the_run_and_says_how_to_go_on(program: Program) -> None:
    """Earlier batches are stored."""
    lines = [{"_id": str(number), "text": "word"} for number in range(600)]
    path = program.write("items.jsonl", *lines, "{broken")
    line = program.fails("ingest", "items", path)
    assert line.startswith(f"error: {path}:601: not JSON")
    assert "stored before it: 500 items" in line
    assert "run the same command again" in line
    assert "--on-error skip" in line
    assert program.json("collections")[0]["items"] == 500


def test_bad_lines_are_put_aside_and_can_be_mended(program: Program) -> None:
    """The other lines are stored; the mended file completes them."""
    path = program.write("items.jsonl", NOTES[0], "{broken", NOTES[1], '{"title": "no key"}')
    process = program("ingest", "notes", path, "--on-error", "skip", "--json")
    assert process.returncode == 0
    assert counts(json.loads(process.stdout)) == {"read": 2, "added": 2, "embedded": 2, "rejected": 2}
    assert f"rejected: {path}:2: not JSON" in process.stderr
    assert "2 bad lines put aside in items.rejects.jsonl" in process.stderr

    path = program.write("bad.jsonl", "{broken")
    process = program("ingest", "others", path, "--on-error", "skip")
    assert (process.returncode, "no item could be stored: 1 bad line put aside in" in process.stderr) == (1, True)
    assert "there is no collection 'others'" in program("search", "others", "note").stderr
    aside = program.folder / "items.rejects.jsonl"
    assert aside.read_text() == '{broken\n{"title": "no key"}\n'
    aside.write_text(json.dumps(NOTES[2]) + "\n")
    assert counts(program.json("ingest", "notes", aside)) == {"read": 1, "added": 1, "embedded": 1}


def test_bad_csv_lines_follow_the_header_wherever_it_came_from(program: Program) -> None:
    """Standard input can be read only once, and its header is not lost."""
    text = "id,text\n1,fine\n2,one,too many\n"
    process = program("ingest", "x", "-", "-f", "csv", "--on-error", "skip", "--rejects", "aside.csv", "-q", stdin=text)
    assert process.returncode == 0
    assert (program.folder / "aside.csv").read_text() == "id,text\n2,one,too many\n"


async def test_items_wait_for_an_embedder_that_fails(program: Program) -> None:
    """They are found by words, and the same command again embeds them."""
    path = program.write("notes.jsonl", *NOTES)
    async with OpenAIServer(faults=deque([status(401)] * 5)) as server:
        program = program.using(
            RETRIEVAL_EMBEDDER="openai",
            RETRIEVAL_EMBEDDING_API_KEY="key",
            RETRIEVAL_EMBEDDING_BASE_URL=server.url,
            RETRIEVAL_EMBEDDING_DIMENSIONS="64",
        )
        process = await asyncio.to_thread(program, "ingest", "notes", path)
        assert process.returncode == 3
        notice = f"note: texts are sent to {server.url}, to be embedded by text-embedding-3-small: about "
        assert notice in process.stderr
        assert "RETRIEVAL_EMBEDDER=minilm keeps them on this machine" in process.stderr
        assert "3 items without a vector, found by words only; once the embedder answers, the same" in process.stderr
        assert ["pending", "3"] in [line.split() for line in process.stdout.splitlines()]
        payload = await asyncio.to_thread(program.json, "search", "notes", "certificate")
        assert payload["hits"][0]["id"] == "login"

        server.faults.extend([status(401)] * 5)
        process = await asyncio.to_thread(program, "jobs", "run", "embed", "--collection", "notes")
        assert process.returncode == 3
        assert "3 items without a vector, found by words only; once the embedder answers, the same" in process.stderr
        server.faults.clear()

        report = await asyncio.to_thread(program.json, "ingest", "notes", path)
        assert counts(report) == {"read": 3, "unchanged": 3, "embedded": 3}


async def test_a_notice_precedes_sending_texts_to_a_service(program: Program) -> None:
    """The notice has the address without password, the model and the tokens; the local model's names its limits."""
    path = program.write("notes.jsonl", *NOTES)
    async with OpenAIServer(speaks=SPEECHES["ollama"], dimensions=96) as server:
        address = server.url.replace("http://", "http://me:secret@")
        sending = program.using(RETRIEVAL_EMBEDDER=f"ollama:somebody/new@{address}")
        process = await asyncio.to_thread(sending, "ingest", "notes", path)
        assert process.returncode == 0, process.stderr
        assert f"note: texts are sent to {server.url}, to be embedded by somebody/new: about " in process.stderr
        assert "secret" not in process.stderr
        assert sending.json("collections")[0]["space"] == "ollama/somebody/new (96)"
    away = await asyncio.to_thread(sending, "ingest", "others", path)
    assert away.returncode == 1
    assert "error: Ollama does not answer at " in away.stderr
    assert "start it with: ollama serve" in away.stderr
    assert "did you mean 'ollama'?" in program.using(RETRIEVAL_EMBEDDER="olama").fails("ingest", "notes", path)


def test_the_model_of_this_machine_says_that_it_knows_english(program: Program) -> None:
    """It says so of a new collection alone, and names a multilingual model."""
    path = program.write("notes.jsonl", *NOTES)
    local = program.using(RETRIEVAL_EMBEDDER="minilm")
    notice = "all-MiniLM-L6-v2 knows English only; for other languages: RETRIEVAL_EMBEDDER=ollama:bge-m3"
    assert notice in local("ingest", "notes", path).stderr
    assert notice not in local("ingest", "notes", path).stderr


async def test_a_person_confirms_before_a_key_of_the_environment_sends_texts_away(program: Program) -> None:
    """Only OPENAI_API_KEY is set: no is the default answer, and then nothing is sent or stored."""
    path = program.write("notes.jsonl", *NOTES)
    async with OpenAIServer() as server:
        sending = program.using(
            RETRIEVAL_EMBEDDER="auto",
            OPENAI_API_KEY="key",
            RETRIEVAL_EMBEDDING_BASE_URL=server.url,
            RETRIEVAL_EMBEDDING_DIMENSIONS="64",
        )
        terminal = await asyncio.to_thread(typed, sending, "\n", "ingest", "notes", str(path))
        assert "OPENAI_API_KEY is set, RETRIEVAL_EMBEDDER is not. Send them? [y/N]" in terminal
        assert "nothing was sent or stored" in terminal
        assert program.json("collections") == []
        await asyncio.to_thread(typed, sending, "", "ingest", "notes", str(path), "--yes")
        assert [collection["pending"] for collection in program.json("collections")] == [0]


def typed(program: Program, text: str, *arguments: str) -> str:
    """The program's standard error when that text is typed on a terminal."""
    outer, inner = pty.openpty()
    os.write(outer, text.encode())
    process = subprocess.run(
        [*program.command, *arguments],
        stdin=inner,
        capture_output=True,
        text=True,
        check=False,
        cwd=program.folder,
        env=program.variables,
        timeout=SECONDS,
    )
    os.close(inner)
    os.close(outer)
    return process.stderr


def test_an_interrupted_run_is_continued_by_the_same_command(program: Program) -> None:
    """The command exits with 130 and one line, and the items stored so far stay stored."""
    path = program.write("many.jsonl", *({"_id": str(n), "text": f"word{n} " * 40} for n in range(20_000)))
    running = program.start("ingest", "many", path)
    deadline = time.monotonic() + SECONDS
    while not any(collection["items"] for collection in program.json("collections")):
        assert time.monotonic() < deadline
        # It needs the processor more.
        time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=SECONDS)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; run the same command again to continue"
    stored = program.json("collections")[0]["items"]
    assert 0 < stored < 20_000
    program.write("many.jsonl", *({"_id": str(n), "text": f"word{n} " * 40} for n in range(stored)))
    report = program.json("ingest", "many", path)
    assert report["unchanged"] == stored
    assert program.json("collections")[0]["pending"] == 0


def test_a_signal_ends_the_command_within_a_document(program: Program) -> None:
    """Reading a document may take minutes; the one before it stays stored."""
    program = program.using(RETRIEVAL_EMBEDDER="none")
    (program.folder / "books").mkdir()
    (program.folder / "books" / "1.txt").write_text("\n\n".join(f"chapter {n} " * 100 for n in range(1_000)))
    program.succeeds("ingest", "alone", "books/1.txt", "--quiet")
    (alone,) = program.json("collections")
    slow = pdf_of_shared_content("BT (word) Tj ET\n" * 20_000, form="", pages=100)
    (program.folder / "books" / "2.pdf").write_bytes(slow)
    running = program.start("ingest", "books", "books")
    deadline = time.monotonic() + SECONDS
    while [collection["items"] for collection in program.json("collections")] != [alone["items"]] * 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    began = time.monotonic()
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=SECONDS)

    assert time.monotonic() - began < 5
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; run the same command again to continue"


def test_hits_are_ranked_and_explained(notes: Program) -> None:
    """The right one first, its parts adding up."""
    lines = notes.succeeds("search", "notes", "certificate expired", "--limit", "2", "--explain").splitlines()
    assert lines[0].startswith(" 1. ")
    assert lines[0].endswith("login  Login fails")
    assert lines[1].strip() == "The certificate expired."
    rows = [line.split() for line in lines[2:9] if line.startswith("    ") and "─" not in line]
    parts = {row[0]: float(row[-1]) for row in rows if row and row[0] in {"dense", "lexical", "score"}}
    assert parts["score"] == pytest.approx(parts["dense"] + parts["lexical"])
    assert any(line.startswith("2 hits · exact, ") for line in lines)


def test_json_holds_the_whole_answer(notes: Program) -> None:
    """Hits with their explanations, the path, the times."""
    answer = notes.json("search", "notes", "certificate expired", "-n", "1")
    assert answer["hits"][0]["id"] == "login"
    assert answer["hits"][0]["explanation"]["contributions"]
    assert answer["path"] == "exact"
    assert answer["timings_ms"]["total"] > 0


CONDITIONS: list[tuple[list[str], set[str]]] = [
    (["priority=High"], {"disk"}),
    (["priority!=High"], {"login", "slow"}),
    (["hours=26"], {"disk", "login"}),
    (["hours>=3", "hours<26"], {"slow"}),
    (["tags=report"], {"slow"}),
    (['{"or": [{"priority": "Low"}, {"tags": ["report"]}]}'], {"login", "slow"}),
    (["item_id=disk", "priority=Low"], set()),
    (['{"item_id": ["disk", "slow", "none"]}'], {"disk", "slow"}),
    (['{"item_id": {"nin": ["disk", "slow"]}}'], {"login"}),
]
"""Conditions as they are typed, and the items that they match; a list of keys is a condition in JSON."""


def test_conditions_choose_items(notes: Program) -> None:
    """Each condition narrows the others; keys can be included and excluded."""
    for conditions, ids in CONDITIONS:
        options = [word for condition in conditions for word in ("--where", condition)]
        hits = notes.json("search", "notes", "the report node certificate disk", *options)["hits"]
        assert {hit["id"] for hit in hits} == ids, conditions


def test_one_leg_can_answer_alone(notes: Program) -> None:
    """Words alone find only what holds them."""
    answer = notes.json("search", "notes", "certificate", "--legs", "lexical")
    assert [hit["id"] for hit in answer["hits"]] == ["login"]


def test_collections_are_listed(notes: Program) -> None:
    """With size, space, language and profile; of this tenant only; by ``list`` too, as in other groups of commands."""
    assert notes.json("collections") == notes.json("collections", "list")
    assert notes.json("collections") == [
        {
            "name": "notes",
            "items": 3,
            "pending": 0,
            "space": "hashing/words-and-trigrams@1 (256)",
            "text_search_config": "english",
            "profile_version": 1,
            "model_version": 0,
            "has_hnsw": False,
            "index": "auto",
            "is_quantised": False,
            "parts": 1,
            "index_parts": 0,
            "filterable": {},
            "neighbours": None,
            "schema": None,
        }
    ]
    assert "notes" in notes.succeeds("collections")
    assert notes.json("--tenant", "somebody else", "collections") == []
    assert "no collections yet" in notes.succeeds("-t", "somebody else", "collections")


def test_attributes_are_declared_as_filterable(program: Program) -> None:
    """With the items or later; a value that cannot be is refused, and a type can be changed."""
    path = program.write("notes.jsonl", *NOTES)
    program.succeeds("ingest", "notes", path, "-q", "--filterable", "priority:text", "--filterable", "hours:number")
    declared = ("collections", "filterable", "notes")
    assert program.json(*declared) == {"hours": "number", "priority": "text"}
    assert program.json("collections")[0]["filterable"] == {"hours": "number", "priority": "text"}
    payload = program.json("search", "notes", "certificate disk report", "--where", "hours=26")
    assert [hit["id"] for hit in payload["hits"]] == ["disk"]
    assert "'hours' is filterable as number" in program.fails("search", "notes", "disk", "--where", "hours=many")
    assert "--drop hours hours:text" in program.fails(*declared, "hours:text")
    assert program.json(*declared, "--drop", "hours", "hours:text") == {"hours": "text", "priority": "text"}
    payload = program.json("search", "notes", "certificate disk report", "--where", "hours=26")
    assert [hit["id"] for hit in payload["hits"]] == ["login"]
    assert "write ATTRIBUTE:TYPE" in program.fails(*declared, "hours")
    assert "no attribute is declared" in program.succeeds(*declared, "--drop", "hours", "--drop", "priority")


def test_the_kind_of_index_is_chosen_shown_and_changed(program: Program, tmp_path: Path) -> None:
    """The kind is set on creation or later; the job builds the index."""
    (tmp_path / "one.jsonl").write_text('{"_id": "1", "text": "one"}\n', encoding="utf-8")
    program.succeeds("ingest", "bits", str(tmp_path / "one.jsonl"), "--index", "quantised")
    assert program.json("collections", "index", "bits") == {"collection": "bits", "index": "quantised", "has": None}
    assert program.succeeds("collections", "index", "bits", "full").strip() == "bits asks for full, has no index"
    assert program.json("collections")[0]["index"] == "full"


def test_an_index_is_divided_once_there_is_one(program: Program, tmp_path: Path) -> None:
    """A small collection keeps the wish; a number that cannot be is refused."""
    (tmp_path / "one.jsonl").write_text('{"_id": "1", "text": "one"}\n', encoding="utf-8")
    program.succeeds("ingest", "parts", str(tmp_path / "one.jsonl"))
    output = program.succeeds("collections", "split", "parts", "--parts", "1").strip()
    assert output == "parts is searched without an index; once it is large, it gets one in 1 part"
    info = program.json("collections", "split", "parts", "--parts", "3")
    assert (info["parts"], info["index_parts"], info["has_hnsw"]) == (3, 0, False)
    assert "parts is 65; it must be a whole number from 1 to 64" in program.fails(
        "collections", "split", "parts", "--parts", "65"
    )
    assert "no collection" in program.fails("collections", "split", "nothing", "--parts", "2")


def test_neighbours_are_set_shown_and_taken_back(program: Program) -> None:
    """An item is then found by its neighbour's words, below the neighbour itself; and no more afterwards."""
    turns = ({"_id": f"t{n}", "text": text, "talk": "a", "turn": n} for n, text in enumerate(("zebras", "yes", "no")))
    program.succeeds("ingest", "talks", program.write("talks.jsonl", *turns), "-q")
    setting = ("collections", "neighbours", "talks")
    assert "indexed alone" in program.succeeds(*setting)
    neighbours = {"sequence": "talk", "order": "turn", "before": 1, "after": 2, "own_weight": 2}
    assert program.json(*setting, "--sequence", "talk", "--order", "turn", "--before", "1") == neighbours
    assert program.json("collections")[0]["neighbours"] == neighbours
    assert program.json(*setting) == neighbours

    def found() -> list[str]:
        return [hit["id"] for hit in program.json("search", "talks", "zebra", "--legs", "lexical")["hits"]]

    assert found() == ["t0", "t1"]
    assert "or --none" in program.fails(*setting, "--none", "--sequence", "talk")
    assert "from 0 to 20" in program.fails(*setting, "--sequence", "talk", "--after", "21")
    assert program.json(*setting, "--none") is None
    assert found() == ["t0"]


def test_a_collection_has_its_own_language(program: Program) -> None:
    """It is chosen once; another one later is refused."""
    path = program.write("notiz.jsonl", {"_id": "1", "text": "Die Berichte sind langsam."})
    program.succeeds("ingest", "notizen", path, "--language", "german", "-q")
    assert program.json("search", "notizen", "Bericht", "-l", "lexical")["hits"]
    other = program.fails("ingest", "notizen", path, "--language", "english", "--filterable", "host:text")
    assert "was made with the language 'german'" in other
    assert program.json("collections", "list")[0]["filterable"] == {}
    assert "no text search configuration 'klingon'" in program.fails("ingest", "neu", path, "--language", "klingon")


def test_compressed_files_are_read(program: Program) -> None:
    """The file's name does not matter."""
    path = program.folder / "notes.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(NOTES[0]).encode()))
    assert program.json("ingest", "notes", path)["added"] == 1


def test_a_reader_that_leaves_early_is_not_complained_about(notes: Program) -> None:
    """As with ``head``."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = subprocess.run(
            [*notes.command, "search", "notes", "report"],
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=notes.folder,
            env=notes.variables,
            check=False,
        )
    finally:
        os.close(writer)
    assert process.stderr == b""


def test_a_file_of_tickets_needs_no_mapping(program: Program) -> None:
    """Its columns become fields and typed, filterable attributes; a domain 42 is text."""
    (program.folder / "historical_tickets.csv").write_text(HISTORY, encoding="utf-8")
    report = program.json("ingest", "tickets", "historical_tickets.csv")
    assert counts(report) == {"read": 2, "added": 2, "embedded": 2}
    (first,) = program.json("search", "tickets", "login", "--where", "resolution_time_hours<5")["hits"]
    assert (first["title"], first["text"]) == ("Login fails", "The certificate expired.")
    assert (first["tags"], first["occurred_at"]) == (["Code Fix", "#MM"], "2024-05-01T08:00:00+00:00")
    assert first["metadata"] == {
        "priority": "High",
        "domain": "MM",
        "resolution": "Renewed it",
        "resolution_time_hours": 4.5,
        "resolved_at": "2024-05-01T12:30Z",
    }
    (second,) = program.json("search", "tickets", "login", "--where", '{"domain": "42"}')["hits"]
    assert second["metadata"] == {"priority": "Unheard", "domain": "42"}


def test_a_folder_of_documents_is_ingested_and_gives_passages(program: Program, tmp_path: Path) -> None:
    """An unreadable document is reported and does not stop the others; deleted documents are removed on request."""
    handbook = write_handbook(tmp_path / "handbook")
    report = program.json("ingest", "docs", handbook)
    assert (report["added"], report["failed"], report["empty"]) == (6, [], ["handbook/team/empty.md"])
    rows = [line.split() for line in program.succeeds("ingest", "docs", handbook).splitlines()]
    assert ["unchanged", "6", "0"] in rows

    (handbook / "policy.pdf").unlink()
    (handbook / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    process = program("ingest", "docs", handbook, "--prune")
    assert process.returncode == 1
    assert "failed: handbook/broken.pdf: cannot be read as pdf" in process.stderr
    assert "error: 1 document could not be read" in process.stderr
    hits = program.json("search", "docs", "flights need a permit", "--group-by", "document")["hits"]
    assert "handbook/policy.pdf" not in {hit["metadata"]["document"] for hit in hits}

    page = program.succeeds("passages", "docs", "how long are backups kept?", "--max-tokens", 200, "--limit", 1)
    assert "Source: handbook/" in page
    payload = program.json("passages", "docs", "who restores a backup?", "--where", "document=handbook/backups.md")
    assert payload["passages"][0]["document"] == "handbook/backups.md"
    assert payload["tokens"] <= 2000


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["gone.md"], 1, "gone.md: there is no such file or folder"),
        (["handbook", "--map", "text=x"], 1, "--map is for files of items"),
        (["handbook", "--name", "a/"], 1, "name is 'a/'; it must be a text on one line"),
        (["handbook", "--overlap", "100"], 1, "overlap is 100; it must be a whole number from 0 to 64"),
        (["handbook", "--chunk-tokens", "3"], 2, "Invalid value for '--chunk-tokens'"),
        (["handbook", "notes.jsonl"], 1, "notes.jsonl: the name does not tell what document it is"),
    ],
)
def test_options_for_items_are_refused_for_documents(
    program: Program, tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    """In one line."""
    write_handbook(tmp_path / "handbook")
    (tmp_path / "notes.jsonl").write_text("")
    places = [str(tmp_path / word) if word in {"handbook", "notes.jsonl"} else word for word in options]
    assert message in program.fails("ingest", "docs", *places, code=code)


def test_items_too_long_for_the_model_are_reported(program: Program) -> None:
    """The local model reads 256 tokens."""
    path = program.write("long.jsonl", {"_id": "long", "text": "word " * 300}, {"_id": "short", "text": "word"})
    process = program.using(RETRIEVAL_EMBEDDER="minilm")("ingest", "long", path)
    assert "1 item longer than the model reads" in process.stderr
