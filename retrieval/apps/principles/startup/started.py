"""The started session: its text, and its record. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from retrieval.apps.principles.choosing import TAG_BOOST, Chosen
from retrieval.apps.principles.startup.surroundings import Surroundings
from retrieval.domain.checks import STORED_NOTE, clean_text, clean_value, named, provenance, quoted, shown_line
from retrieval.domain.learning.context import Context
from retrieval.domain.records.search_record import ComposedAnswer
from retrieval.domain.records.slate import ShownItem, Slot

ORIGIN = "session-start"
"""The recorded origin of the answer."""

_LONGEST_LINE = 300
_LONGEST_QUERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The principles of a session, with the tags that they were chosen by."""

    session: str
    surroundings: Surroundings
    recent_tags: tuple[str, ...]
    """The tags of sessions that went well."""
    principles: tuple[Chosen, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags that counted, each once."""
        return tuple(dict.fromkeys((*self.surroundings.tags, *self.recent_tags)))

    def as_text(self) -> str:
        """A short Markdown list in which stored text is quoted; empty where there are no principles."""
        if not self.principles:
            return ""
        lines = ["# Principles for this session", "", STORED_NOTE, ""]
        lines += [_item(principle) for principle in self.principles]
        lines += ["", f"Session {named(self.session)}. Rate those that helped or misled by their id (rate_principle)."]
        return "\n".join(lines) + "\n"

    def as_json(self) -> str:
        """One JSON object, on one line."""
        return json.dumps(self.as_dict(), ensure_ascii=False) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        context = self.surroundings
        return {
            "session_id": shown_line(self.session),
            "context": {
                "recent_commits": clean_value(context.recent_commits),
                "changed_files": clean_value(context.changed_files),
                "project_tags": clean_value(context.project_tags),
                "recent_session_tags": clean_value(self.recent_tags),
                "keywords": clean_value(context.keywords),
            },
            "principles": [_plain(principle, self.tags) for principle in self.principles],
            "explored": [
                shown_line(principle.principle.id) for principle in self.principles if principle.is_exploratory
            ],
        }


def composed_answer(
    started: Started, *, retrieval_id: UUID, collection_id: int, seed: int, eligible: int, took_ms: float
) -> ComposedAnswer:
    """The answer that is recorded."""
    return ComposedAnswer(
        retrieval_id=retrieval_id,
        collection_id=collection_id,
        query=" ".join(started.tags)[:_LONGEST_QUERY] or ORIGIN,
        vector=None,
        shown=[_shown(principle, started.tags) for principle in started.principles],
        context=Context(session=started.session),
        origin=ORIGIN,
        retrieval_time_ms=took_ms,
        seed=seed,
        eligible=eligible,
    )


def _shown(chosen: Chosen, tags: Sequence[str]) -> ShownItem:
    return ShownItem(
        item_id=chosen.principle.id,
        score=chosen.score,
        signals={"principle_score": chosen.principle.score, "tag_match": TAG_BOOST * len(_matching(chosen, tags))},
        slot=Slot.EXPLORE if chosen.is_exploratory else Slot.EXPLOIT,
        propensity=chosen.propensity,
        rank_propensity=chosen.rank_propensity,
    )


def _plain(chosen: Chosen, tags: Sequence[str]) -> dict[str, Any]:
    principle = chosen.principle
    return {
        "id": shown_line(principle.id),
        "title": shown_line(principle.title, _LONGEST_LINE),
        "summary": _first_line(principle.body),
        "tags": [shown_line(tag) for tag in principle.tags],
        "matching_tags": [shown_line(tag) for tag in _matching(chosen, tags)],
        "added_by": shown_line(principle.added_by),
        "score": chosen.score,
        "principle_score": principle.score,
        "use_count": principle.use_count,
        "success_rate": principle.success_rate,
        "status": principle.status,
        "is_exploratory": chosen.is_exploratory,
        "propensity": chosen.propensity,
    }


def _matching(chosen: Chosen, tags: Sequence[str]) -> list[str]:
    wanted = frozenset(tags)
    return [tag for tag in chosen.principle.tags if tag in wanted]


def _item(chosen: Chosen) -> str:
    principle = chosen.principle
    mark = " (exploring)" if chosen.is_exploratory else ""
    first = _first_line(principle.body)
    said = quoted(principle.title, _LONGEST_LINE) + (f": {quoted(first)}" if first else "")
    tags = f" [{', '.join(map(named, principle.tags))}]" if principle.tags else ""
    fared = provenance(principle.added_by, principle.use_count, principle.success_count)
    return f"- **[{named(principle.id)}]**{mark} {said}{tags} · {fared}"


def _first_line(body: str) -> str:
    return next((line for part in clean_text(body).splitlines() if (line := shown_line(part, _LONGEST_LINE))), "")
