"""Search results for people."""

from __future__ import annotations

import io
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from retrieval.domain.search.hit import Contribution, Explanation, Hit, Path, SearchResult
from retrieval.surfaces.cli.commands.search import body_lines, footer, print_result

WHY = "no HNSW index: 3 items are few enough to compare all"


def hit(rank: int = 1, *, body: str = "", values: tuple[float, ...] = (0.016393, 0.015873)) -> Hit:
    """A hit of two legs."""
    parts = tuple(
        Contribution(leg, place, 0.5, 1.0, value)
        for place, (leg, value) in enumerate(zip(("dense", "lexical"), values, strict=True), 1)
    )
    explanation = Explanation("rrf", parts)
    return Hit(
        item_id=f"T-{rank}",
        score=explanation.score,
        rank=rank,
        explanation=explanation,
        title=f"Title {rank}",
        body=body,
    )


def result(*hits: Hit, notes: tuple[str, ...] = ()) -> SearchResult:
    """The result of a search with these hits."""
    return SearchResult(
        hits=hits, path=Path.EXACT, why=WHY, profile_version=3, notes=notes, timings_ms={"embed": 1.25, "total": 9.0}
    )


def printed_lines(answer: SearchResult, *, explain: bool = False, width: int = 60) -> str:
    """The lines that are printed."""
    out = io.StringIO()
    print_result(Console(file=out, width=width, markup=False, emoji=False, highlight=False), answer, explain=explain)
    return out.getvalue()


def test_hits_come_in_order_with_rank_score_id_title_and_body() -> None:
    """Two lines of the body at most, the rest left out visibly."""
    lines = printed_lines(result(hit(1, body="word " * 100), hit(2, body="short"))).splitlines()
    assert lines[0] == " 1. 0.0323  T-1  Title 1"
    assert lines[1].startswith("    word word")
    assert lines[2].rstrip().endswith("word …")
    assert lines[3] == " 2. 0.0323  T-2  Title 2"
    assert lines[4].strip() == "short"


def test_the_footer_says_path_profile_times_and_notes() -> None:
    """All that a reader needs to judge the answer; why a search was exact is part of the explanation."""
    assert next(iter(footer(result(hit()), explain=True))) == f"1 hit · exact: {WHY} · profile v3"
    assert list(footer(result(hit(), notes=("the dense leg did not run",)))) == [
        "1 hit · exact · profile v3",
        "embed 1.2 ms · total 9.0 ms",
        "note: the dense leg did not run",
    ]


def test_the_footer_names_the_retrieval_for_feedback_and_replay() -> None:
    """The footer of a recorded search has its id."""
    number = UUID("01a20860-4ac0-75ea-b837-a6c1aeeb0dea")
    assert f"retrieval {number}" in footer(replace(result(hit()), retrieval_id=number))


def test_the_footer_says_how_many_rows_were_weighed() -> None:
    """The footer has the number if the dense leg weighed any."""
    answer = replace(result(hit()), weighed=3)
    assert next(iter(footer(answer))) == "1 hit · exact, 3 rows weighed · profile v3"
    answer = replace(result(hit()), path=Path.NONE, why="no dense leg", weighed=0)
    assert next(iter(footer(answer))) == "1 hit · no dense leg · profile v3"


def test_an_empty_answer_is_stated() -> None:
    """The footer is there also then."""
    assert printed_lines(result()).startswith("0 hits · exact")


def test_explained_contributions_add_up_to_the_shown_sum() -> None:
    """To the last digit that is shown."""
    parts = printed_lines(result(hit(values=(0.0163934426, 0.0161290323))), explain=True).splitlines()
    values = {line.split()[0]: line.split()[-1] for line in parts if line.strip()}
    assert values["dense"] == "0.016393"
    assert values["lexical"] == "0.016129"
    assert values["score"] == "0.032522"


def test_stored_texts_are_not_markup_and_steer_nothing() -> None:
    """Brackets are shown, escape sequences are not."""
    text = printed_lines(result(hit(body="[red]x[/red] \x1b[2J :smile:")))
    assert "[red]x[/red] :smile:" in text


def test_long_titles_are_not_broken() -> None:
    """A line is one hit, for those who search in the output."""
    plain = hit()
    long = Hit(item_id="T", score=1.0, rank=1, explanation=plain.explanation, title="word " * 50)
    assert "word " * 49 in printed_lines(result(long))


@given(st.text(max_size=400), st.integers(1, 200))
def test_any_body_fits_two_lines_of_any_console(body: str, width: int) -> None:
    """No line is wider than the console, for any script."""
    out = Console(file=io.StringIO(), width=width)
    lines = body_lines(out, body)
    assert len(lines) <= 2
    assert all(line.cell_len <= max(width - 4, 20) for line in lines)
