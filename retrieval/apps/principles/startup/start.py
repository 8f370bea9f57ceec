"""The start of a session chooses and shows principles; its end stores a trace of it.

The folder is read while the database is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from retrieval.adapters.store.deadline import Deadline, deadline
from retrieval.adapters.store.installation.embedded.place import check_is_made, default_home
from retrieval.adapters.store.installation.opening import ensure_tenant, open_database
from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import store_recordings
from retrieval.adapters.store.records.session_start import KnownPrinciple, StartQuestion, read_start
from retrieval.apps.principles.choosing import (
    FEWER_USES_THAN,
    MIN_PRINCIPLE_SCORE,
    TAG_BOOST,
    YOUNGER_THAN,
    Choice,
    choose,
    normalised_tags,
    rivals,
)
from retrieval.apps.principles.principle import ACTIVE, IN_USE, KIND, Principle
from retrieval.apps.principles.startup.surroundings import (
    EndOptions,
    HookInput,
    StartOptions,
    Surroundings,
    look_around,
)
from retrieval.apps.probation import FAILED_BELOW, LEAST_TO_FAIL
from retrieval.domain.checks import STORED_NOTE, clean_text, clean_value, named, provenance, quoted, shown_line
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.search_record import ComposedAnswer
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.apps.principles.traces import Trace
    from retrieval.platform import Platform


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
    principles: tuple[Choice, ...]

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


def _shown(chosen: Choice, tags: Sequence[str]) -> ShownItem:
    return ShownItem(
        item_id=chosen.principle.id,
        score=chosen.score,
        signals={"principle_score": chosen.principle.score, "tag_match": TAG_BOOST * len(_matching(chosen, tags))},
        slot=Slot.EXPLORE if chosen.is_exploratory else Slot.EXPLOIT,
        propensity=chosen.propensity,
        rank_propensity=chosen.rank_propensity,
    )


def _plain(chosen: Choice, tags: Sequence[str]) -> dict[str, Any]:
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


def _matching(chosen: Choice, tags: Sequence[str]) -> list[str]:
    wanted = frozenset(tags)
    return [tag for tag in chosen.principle.tags if tag in wanted]


def _item(chosen: Choice) -> str:
    principle = chosen.principle
    mark = " (exploring)" if chosen.is_exploratory else ""
    first = _first_line(principle.body)
    said = quoted(principle.title, _LONGEST_LINE) + (f": {quoted(first)}" if first else "")
    tags = f" [{', '.join(map(named, principle.tags))}]" if principle.tags else ""
    fared = provenance(principle.added_by, principle.use_count, principle.success_count)
    return f"- **[{named(principle.id)}]**{mark} {said}{tags} · {fared}"


def _first_line(body: str) -> str:
    return next((line for part in clean_text(body).splitlines() if (line := shown_line(part, _LONGEST_LINE))), "")


@contextlib.contextmanager
def watchdog(seconds: float, when_late: Callable[[], None]) -> Iterator[None]:
    """End the process with 0 if the block takes longer than ``seconds``; call ``when_late`` in a thread before.

    A call that blocks in the kernel cannot be interrupted; the process can end.
    """
    timer = threading.Timer(seconds, _end, [when_late])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(when_late: Callable[[], None]) -> None:
    try:
        when_late()
    finally:
        os._exit(0)


MOST_UNSURE = 150
"""The most eligible principles that compete, the latest first, half of them with a tag of the session."""

TRACES = "{}_traces"
"""The collection of the traces, as ``traces.py`` names it, which is too slow to load here."""

RECENT, LATEST_TRACES, RECENT_TAGS = timedelta(days=7), 20, 10

Say = Callable[[str], None]


async def start_session(
    options: StartOptions,
    settings: Settings,
    hook: HookInput,
    say: Say,
    show: Callable[[Started], None],
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Choose the session's principles, give them to ``show``, then record what was shown. ``say`` takes hints.

    The folder is read while the database is opened. Raises ``RetrievalError`` where no principles can be had.
    """
    began = time.monotonic()
    until = Deadline(began + settings.session_start_seconds)
    async with AsyncExitStack() as stack:
        stack.enter_context(deadline(until))
        if settings.database_url is None:
            check_is_made(settings.home or default_home())
        folder = options.folder or Path(hook.folder or ".")
        looking = asyncio.create_task(asyncio.to_thread(look_around, folder, until.until, say))
        database = await open_database(settings, stack)
        tenant_id = await ensure_tenant(database, settings.tenant)
        context, now = await looking, clock()
        answer = await read_start(database, tenant_id, _question(options, context, now))
        seed = int.from_bytes(os.urandom(8)) >> 1
        chance = random.Random(seed)  # noqa: S311 - it explores, and keeps no secret
        principles = [_principle(principle) for principle in answer.principles]
        tags = frozenset((*context.tags, *answer.recent_tags))
        most, slots = options.limit, options.explore
        started = Started(
            session=options.session or hook.session or str(_identifier(now)),
            surroundings=context,
            recent_tags=answer.recent_tags,
            principles=tuple(choose(principles, tags, chance, now=now, most=most, slots=slots)),
        )
        show(started)
        if not started.principles or chance.random() >= answer.recorded:
            return
        answered = composed_answer(
            started,
            retrieval_id=_identifier(clock()),
            collection_id=answer.collection_id,
            seed=seed,
            eligible=len(rivals(principles, tags, now=now, most=most, slots=slots)),
            took_ms=1000 * (time.monotonic() - began),
        )
        await store_recordings(database, tenant_id, [encoded(answered.record())], {})


def _question(options: StartOptions, context: Surroundings, now: datetime) -> StartQuestion:
    return StartQuestion(
        collection=options.collection,
        traces=TRACES.format(options.collection),
        tags=context.tags,
        most=options.limit + options.explore,
        certain=max(0, options.limit - options.explore),
        kind=KIND,
        in_use=IN_USE,
        active=ACTIVE,
        least_score=MIN_PRINCIPLE_SCORE,
        boost=TAG_BOOST,
        fewer_uses_than=FEWER_USES_THAN,
        young_since=now - YOUNGER_THAN,
        most_unsure=MOST_UNSURE,
        failed_from=LEAST_TO_FAIL,
        failed_below=FAILED_BELOW,
        since=now - RECENT,
        now=now,
        latest_traces=LATEST_TRACES,
        recent_tags=RECENT_TAGS,
    )


def _principle(known: KnownPrinciple) -> Principle:
    return Principle(
        id=known.item_id,
        title=known.title,
        body=known.body,
        tags=tuple(known.tags),
        status=known.status,
        added_by=known.source,
        created_at=datetime.fromtimestamp(known.created_at, UTC),
        use_count=known.uses,
        success_count=known.successes,
        last_used_at=None if known.last_used_at is None else datetime.fromtimestamp(known.last_used_at, UTC),
    )


def _identifier(now: datetime) -> UUID:
    return uuid7(int(now.timestamp() * 1000), random.SystemRandom())


MOST_TAGS = 30
"""The most tags of a trace."""

_LONGEST_TITLE = 200


async def end_session(platform: Platform, options: EndOptions, hook: HookInput, context: Surroundings) -> Trace:
    """Store the session's trace; one that was stored for the same session before is replaced.

    Raises ``RetrievalError``.
    """
    from retrieval.apps.principles.store import PrincipleStore

    session = options.session or hook.session
    folder = options.folder or Path(hook.folder or ".")
    return await PrincipleStore(platform, options.collection).add_trace(
        title=_line(options.title or default_title(folder, context))[:_LONGEST_TITLE],
        tags=normalised_tags([*map(_line, options.tags), *context.project_tags][:MOST_TAGS]),
        outcome=options.outcome,
        trace_id=session or None,
        session=session,
    )


def _line(text: str) -> str:
    """The text in a form that can be stored: names of folders, commit messages and a command line may hold anything."""
    return clean_text(text, is_line=True)


def default_title(folder: Path, context: Surroundings) -> str:
    """The folder's name, and the subject of the latest commit where there is one."""
    name = folder.absolute().name or "session"
    return f"{name}: {context.recent_commits[0]}" if context.recent_commits else name
