"""Feedback as a user gives it on the command line: one by one, from a file, and of actors that do not count."""

from __future__ import annotations

import json

from tests.acceptance.conftest import Program


def test_a_file_is_stored_but_for_its_bad_lines_and_a_quarantine_takes_it_back(program: Program) -> None:
    """Each bad line is named with its number; the file again counts nothing twice."""
    program.write("docs.jsonl", {"_id": "a", "text": "one"}, {"_id": "b", "text": "two"})
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    good = {"collection": "docs", "item_id": "a", "helpful": True, "actor": "u1"}
    others = [good | {"item_id": "nowhere"}, good | {"item_id": "b", "actor": ""}]
    program.write("events.jsonl", good, *others, *[["no"]] * 11)
    for recorded, repeated in ((2, 0), (0, 2)):
        process = program("feedback", "--file", "events.jsonl", "--json")
        assert process.returncode == 1
        assert json.loads(process.stdout) == {
            "recorded": recorded, "repeated": repeated, "superseding": 0, "discounted": {}, "rejected": 12,
        }  # fmt: skip
        assert "events.jsonl:2: item 'nowhere'" in process.stderr
        for line in range(4, 15):
            assert f"events.jsonl:{line}: an event is written as an object" in process.stderr
    assert program.json("actors", "quarantine", "u1") == {"events": 1}
    report = program.json("feedback", "--collection", "docs", "b", "--reward", "0.5", "--actor", "u1")
    assert report["discounted"] == {"quarantined": 1}


def test_each_command_is_a_verdict_and_the_last_one_counts(program: Program) -> None:
    """Also one that was given before, and taken back; with a key it is a repetition."""
    program.write("pages.jsonl", {"_id": "a", "text": "one"})
    program.succeeds("ingest", "pages", "pages.jsonl", "--quiet")
    judge = ("feedback", "--collection", "pages", "a", "--actor", "u2")
    reports = [program.json(*judge, verdict) for verdict in ("--helpful", "--not-helpful", "--helpful")]
    assert [(report["recorded"], report["superseding"]) for report in reports] == [(1, 0), (1, 1), (1, 1)]
    reports = [program.json(*judge, "--helpful", "--key", "order 17") for _ in range(2)]
    assert [(report["recorded"], report["repeated"]) for report in reports] == [(1, 0), (0, 1)]
