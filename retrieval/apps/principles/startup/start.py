"""The start of a session chooses and shows principles; its end stores a trace of it.

The folder is read while the database is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
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
    choose,
    normalised_tags,
    rivals,
)
from retrieval.apps.principles.principle import ACTIVE, IN_USE, KIND, Principle
from retrieval.apps.principles.startup.options import EndOptions, StartOptions
from retrieval.apps.principles.startup.started import Started, composed_answer
from retrieval.apps.principles.startup.surroundings import HookInput, Surroundings, look_around
from retrieval.apps.probation import FAILED_BELOW, LEAST_TO_FAIL
from retrieval.domain.checks import clean_text
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.apps.principles.traces import Trace
    from retrieval.platform import Platform


@contextlib.contextmanager
def watchdog(seconds: float, when_late: Callable[[], None]) -> Iterator[None]:
    """After so many seconds within the block, call ``when_late`` in a thread, and end the process with 0.

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
