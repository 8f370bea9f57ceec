"""Choose and show principles at the start of a session, and store a trace at its end."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from retrieval.adapters.store.deadline import Deadline, deadline
from retrieval.adapters.store.installation.embedded.home import check_is_made, default_home
from retrieval.adapters.store.installation.opening import ensure_tenant, open_database
from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import store_recordings
from retrieval.apps.principles import principle as choosing
from retrieval.apps.principles.principle import FoundPrinciple
from retrieval.apps.principles.startup.candidates import read_start
from retrieval.apps.principles.startup.surroundings import Surroundings, look_around
from retrieval.domain.checks import STORED_NOTE, clean_text, clean_value, named, provenance, quoted, shown_line
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.search_record import ComposedAnswer
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.apps.principles.traces import Trace
    from retrieval.platform import Platform


_LONGEST_LINE = 300
_LONGEST_QUERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """The principles of a session, with the tags for which they were chosen."""

    session: str
    surroundings: Surroundings
    recent_tags: tuple[str, ...]
    principles: tuple[FoundPrinciple, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """The distinct tags for which principles were chosen."""
        return tuple(dict.fromkeys((*self.surroundings.tags, *self.recent_tags)))

    def as_text(self) -> str:
        """A short Markdown list with quoted stored text; empty without principles."""
        if not self.principles:
            return ""
        lines = ["# Principles for this session", "", STORED_NOTE, ""]
        lines += [_list_item(principle) for principle in self.principles]
        lines += ["", f"Session {named(self.session)}. Rate those that helped or misled by their id (rate_principle)."]
        return "\n".join(lines) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        context = self.surroundings
        return {
            "session_id": clean_text(self.session),
            "context": {
                "recent_commits": clean_value(context.recent_commits),
                "changed_files": clean_value(context.changed_files),
                "project_tags": clean_value(context.project_tags),
                "recent_session_tags": clean_value(self.recent_tags),
                "keywords": clean_value(context.keywords),
            },
            "principles": [_plain(principle, self.tags) for principle in self.principles],
            "explored": [
                clean_text(principle.principle.id) for principle in self.principles if principle.is_exploratory
            ],
        }


def composed_answer(
    start: SessionStart, *, retrieval_id: UUID, collection_id: int, seed: int, eligible: int, took_ms: float
) -> ComposedAnswer:
    """The answer to record."""
    return ComposedAnswer(
        retrieval_id=retrieval_id,
        collection_id=collection_id,
        query=" ".join(start.tags)[:_LONGEST_QUERY] or choosing.SESSION_START,
        vector=None,
        shown=[
            choice.shown_item(
                {
                    "principle_score": choice.principle.score,
                    "tag_match": choosing.TAG_BOOST * len(_matching(choice, start.tags)),
                }
            )
            for choice in start.principles
        ],
        context=Context(session=start.session),
        origin=choosing.SESSION_START,
        retrieval_time_ms=took_ms,
        seed=seed,
        eligible=eligible,
    )


def _plain(choice: FoundPrinciple, tags: Sequence[str]) -> dict[str, Any]:
    principle = choice.principle
    return {
        "id": clean_text(principle.id),
        "title": shown_line(principle.title, _LONGEST_LINE),
        "summary": _first_line(principle.body),
        "tags": clean_value(principle.tags),
        "matching_tags": clean_value(_matching(choice, tags)),
        "added_by": shown_line(principle.added_by),
        "score": choice.score,
        "principle_score": principle.score,
        "use_count": principle.use_count,
        "success_rate": principle.success_rate,
        "status": principle.status,
        "is_exploratory": choice.is_exploratory,
        "propensity": choice.propensity,
    }


def _matching(choice: FoundPrinciple, tags: Sequence[str]) -> list[str]:
    distinct = frozenset(tags)
    return [tag for tag in choice.principle.tags if tag in distinct]


def _list_item(choice: FoundPrinciple) -> str:
    principle = choice.principle
    mark = " (exploring)" if choice.is_exploratory else ""
    first = _first_line(principle.body)
    lesson = quoted(principle.title, _LONGEST_LINE) + (f": {quoted(first)}" if first else "")
    tags = f" [{', '.join(map(named, principle.tags))}]" if principle.tags else ""
    record = provenance(principle.added_by, principle.use_count, principle.success_count)
    return f"- **[{named(principle.id)}]**{mark} {lesson}{tags} · {record}"


def _first_line(body: str) -> str:
    return next((line for part in clean_text(body).splitlines() if (line := shown_line(part, _LONGEST_LINE))), "")


async def start_session(
    settings: Settings,
    say: Callable[[str], None],
    show: Callable[[SessionStart], None],
    *,
    folder: Path,
    until: float,
    session: str = "",
    collection: str = choosing.COLLECTION,
    limit: int = choosing.MAX_PRINCIPLES,
    explore: int = choosing.SLOTS,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Choose the session's principles, pass them to ``show``, then record the answer. ``say`` prints hints.

    ``until``: the time (``time.monotonic`` seconds) at which it gives up. ``session`` empty: a new name. ``limit``: the
    most principles, at least 1, with up to ``explore`` explored ones, but never all of them. Raises
    ``RetrievalError`` if it cannot read principles.
    """
    begin = time.monotonic()
    explore = min(explore, limit - 1)
    async with AsyncExitStack() as stack:
        stack.enter_context(deadline(Deadline(until)))
        if settings.database_url is None:
            check_is_made(settings.home or default_home())
        look = asyncio.create_task(asyncio.to_thread(look_around, folder, until, say))
        database = await open_database(settings, stack)
        tenant_id = await ensure_tenant(database, settings.tenant)
        context, now = await look, clock()
        collection_id, recorded, recent_tags, candidates = await read_start(
            database, tenant_id, collection, context.tags, most=limit, explored=explore, now=now
        )
        seed = int.from_bytes(os.urandom(8)) >> 1
        chance = random.Random(seed)  # noqa: S311 - for exploration, not for secrets
        tags = frozenset((*context.tags, *recent_tags))
        start = SessionStart(
            session=session or str(_identifier(now)),
            surroundings=context,
            recent_tags=recent_tags,
            principles=tuple(choosing.choose(candidates, tags, chance, now=now, most=limit, slots=explore)),
        )
        if not start.principles:
            found = "has no principles to give yet" if collection_id else "does not exist"
            say(f"collection {collection!r} {found}; add a principle: see docs/how-to/principles.md")
        show(start)
        if not start.principles or chance.random() >= recorded:
            return
        record = composed_answer(
            start,
            retrieval_id=_identifier(clock()),
            collection_id=collection_id,
            seed=seed,
            eligible=len(choosing.rivals(candidates, tags, now=now, most=limit, slots=explore)),
            took_ms=1000 * (time.monotonic() - begin),
        )
        await store_recordings(database, tenant_id, [encoded(record.record())], {})


def _identifier(now: datetime) -> UUID:
    return uuid7(int(now.timestamp() * 1000), random.SystemRandom())


MOST_TRACE_TAGS = 30

_LONGEST_TITLE = 200


async def end_session(
    platform: Platform,
    context: Surroundings,
    *,
    folder: Path,
    session: str = "",
    outcome: str = "success",
    tags: Sequence[str] = (),
    title: str = "",
    collection: str = choosing.COLLECTION,
) -> Trace:
    """Store the session's trace, replacing an earlier trace of the same session.

    ``tags`` come before those of the project. ``title`` empty: the folder's name, and the latest commit if there is
    one. Raises ``RetrievalError``.
    """
    from retrieval.apps.principles.store import PrincipleStore

    # Names of folders, commit messages and arguments may contain any characters.
    all_tags = [*(clean_text(tag, is_line=True) for tag in tags), *context.project_tags]
    return await PrincipleStore(platform, collection).add_trace(
        title=clean_text(title or _default_title(folder, context), is_line=True)[:_LONGEST_TITLE],
        tags=choosing.normalised_tags(all_tags[:MOST_TRACE_TAGS]),
        outcome=outcome,
        trace_id=session or None,
        session=session,
    )


def _default_title(folder: Path, context: Surroundings) -> str:
    return ": ".join([folder.absolute().name or "session", *context.recent_commits[:1]])
