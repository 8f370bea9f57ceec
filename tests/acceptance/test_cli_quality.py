"""``retrieval evaluate`` and ``retrieval tune`` on the sample tickets and on made ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import ROOT, Program, program_in

TICKETS = ROOT / "examples" / "data" / "tickets"
SAMPLE = ("--queries", TICKETS / "queries.jsonl", "--qrels", TICKETS / "qrels.tsv")
AS_IT_WAS = ("--where-from", "metadata.as_of>=occurred_at", "--drop-self", "metadata.self_id")
SOME = ("--limit-queries", 20)


@pytest.fixture(scope="module")
def tickets(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The sample tickets, ingested as ``tickets``; read-only for the tests."""
    program = program_in(tmp_path_factory.mktemp("tickets"), home)
    program.succeeds("ingest", "tickets", TICKETS / "corpus.jsonl.gz", "-q")
    return program


def made_case(program: Program) -> tuple[Any, ...]:
    """Items and queries with a rare word in common among many that mean nothing: words alone find best."""
    rng = random.Random(1)

    def noise(words: int) -> str:
        return " ".join(f"w{rng.randrange(30)}" for _ in range(words))

    items = [{"_id": f"i{n}", "text": f"key{n:03d} {noise(12)}"} for n in range(60)]
    queries = [{"_id": f"q{n}", "text": f"key{n:03d} {noise(6)}"} for n in range(60)]
    program.succeeds("ingest", "made", program.write("items.jsonl", *items), "-q")
    qrels = program.write("qrels.tsv", "query-id\tcorpus-id\tscore", *(f"q{n}\ti{n}\t1" for n in range(60)))
    return "made", "--queries", program.write("queries.jsonl", *queries), "--qrels", qrels


def test_each_leg_and_their_fusion_are_measured(tickets: Program) -> None:
    """Without the query's own ticket and what came after it, the figures are better."""
    plain = tickets.json("evaluate", "tickets", *SAMPLE, *SOME)
    then = tickets.json("evaluate", "tickets", *SAMPLE, *SOME, *AS_IT_WAS)
    assert [variant["variant"] for variant in plain["variants"]] == ["dense", "lexical", "fused"]
    assert plain["metrics"] == ["nDCG@10", "R@100", "MRR@10"]
    assert plain["queries"] == 20
    assert [comparison["name_b"] for comparison in plain["comparisons"]] == ["dense", "lexical"]
    for before, after in zip(plain["variants"], then["variants"], strict=True):
        assert 0 < before["metrics"]["nDCG@10"] < after["metrics"]["nDCG@10"] < 1


def test_the_report_is_readable(tickets: Program) -> None:
    """A row a variant, a row a comparison, and every query where it is wished."""
    output = tickets.succeeds(
        "evaluate", "tickets", *SAMPLE, "--metrics", "R@5,AP", "--limit-queries", "4", "--per-query"
    )
    rows = [line.split() for line in output.splitlines() if line.strip()]
    assert rows[0] == ["4", "judged", "queries"]
    assert [row[0] for row in rows[3:6]] == ["dense", "lexical", "fused"]
    assert sum(row[0].startswith("dup-") for row in rows) == 4 * 2


def test_one_leg_is_measured_alone(tickets: Program) -> None:
    """A single leg is compared with nothing."""
    payload = tickets.json("evaluate", "tickets", *SAMPLE, "--legs", "lexical", "--limit-queries", 3)
    assert [variant["variant"] for variant in payload["variants"]] == ["lexical"]
    assert payload["comparisons"] == []


def test_a_profile_is_measured_before_it_is_in_use(tickets: Program) -> None:
    """From a file; its legs are the variants."""
    words = tickets.write("words.json", {"legs": {"lexical": 1}})
    report = tickets.json("evaluate", "tickets", *SAMPLE, "--profile", words, "--limit-queries", 3)
    assert [variant["variant"] for variant in report["variants"]] == ["lexical"]
    assert tickets.json("profiles", "show", "tickets")["profile"]["legs"].keys() == {"dense", "lexical"}


def test_a_proven_gain_is_stored_on_request(program: Program) -> None:
    """Only with --apply, and the next search uses it."""
    case = made_case(program)
    payload = program.json("tune", *case, "--cutoff", "1")
    assert payload["metric"] == "nDCG@1"
    assert payload["improves"]
    assert payload["profile"]["legs"] == {"lexical": 1.0}
    assert payload["applied_version"] is None
    assert program.json("collections")[0]["profile_version"] == 1

    output = program.succeeds("tune", *case, "--cutoff", "1", "--apply")
    assert "proposed: lexical alone" in output
    assert output.endswith("applied: the collection now searches with profile v2\n")
    answer = program.json("search", "made", "key001")
    assert answer["profile_version"] == 2
    assert {part["leg"] for part in answer["hits"][0]["explanation"]["contributions"]} == {"lexical"}


def test_without_a_gain_the_profile_stays(tickets: Program) -> None:
    """Also with --apply; the report says why, and shows the best settings."""
    output = tickets.succeeds("tune", "tickets", *SAMPLE, *AS_IT_WAS, "--limit-queries", 5, "--apply")
    assert "current:  " in output
    assert "proposed: no change" in output
    assert "keep the current profile" in output
    assert "held-out nDCG@10 of settings chosen on other queries" in output
    assert tickets.json("collections")[0]["profile_version"] == 1


def test_equal_seeds_give_equal_answers(program: Program) -> None:
    """To the last digit, also on a part of the queries."""
    case = made_case(program)
    first, second = (program.json("tune", *case, "--seed", "3", "--limit-queries", 30) for _ in range(2))
    assert first["queries"] == 30
    assert json.dumps(first) == json.dumps(second)


REFUSALS = (
    (("evaluate", "tickets", *SAMPLE, "--metrics", "magic"), "unknown metric 'magic'"),
    (("evaluate", "tickets", *SAMPLE, "--metrics", "R@5000"), "at most 1000"),
    (("evaluate", "tickets", *SAMPLE, "--legs", "bm25"), "there is no leg 'bm25'"),
    (("evaluate", "tickets", *SAMPLE, "--profile", "9"), "has no profile 9"),
    (("evaluate", "tickets", *SAMPLE, "--where-from", "priority"), "cannot read 'priority'"),
    (("evaluate", "tickets", *SAMPLE, "--where-from", "metadata.size=size"), "has no metadata.size"),
    (("evaluate", "tickets", *SAMPLE, "--where-from", "metadata.priority=prio"), "did you mean 'priority'"),
    (("tune", "tickets", *SAMPLE, "--drop-self", "self_id"), "cannot read 'self_id'"),
    (("tune", "tickets", *SAMPLE, "--cutoff", "0"), "cutoff is 0"),
    (("tune", "tickets", "--queries", "missing", "--qrels", "missing"), "missing: no such file; check the name"),
    (("tune", "nothing", *SAMPLE), "there is no collection 'nothing'"),
)


def test_an_impossible_measurement_is_one_line(tickets: Program) -> None:
    """The exit code is 1."""
    for arguments, reason in REFUSALS:
        assert reason in tickets.fails(*arguments)


def test_a_collection_without_vectors_says_why_it_has_no_dense_leg(program: Program) -> None:
    """Such a collection can be measured by words."""
    case = made_case(program)
    program = program.using(RETRIEVAL_EMBEDDER="none")
    program.succeeds("ingest", "words", program.folder / "items.jsonl", "-q")
    for command in ("evaluate", "tune"):
        assert "without an embedder" in program.fails(command, "words", *case[1:])
    payload = program.json("evaluate", "words", *case[1:], "--legs", "lexical")
    assert payload["variants"][0]["metrics"]["MRR@10"] > 0.7
