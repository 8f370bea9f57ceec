"""What ``retrieval session-end`` does once it is known what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from retrieval.adapters.store.installation.embedded.join import check_is_made
from retrieval.apps.principles.startup.end import end_session
from retrieval.apps.principles.startup.end_options import EndOptions
from retrieval.apps.principles.startup.folder import look_around
from retrieval.apps.principles.startup.hook_input import HookInput, read_hook_input
from retrieval.apps.principles.startup.start_settings import StartSettings
from retrieval.apps.principles.trace import Trace
from retrieval.domain.errors import InvalidRequestError
from retrieval.platform import connect
from retrieval.settings import Settings


def store_trace(options: EndOptions, settings: StartSettings, deadline: float, say: Callable[[str], None]) -> Trace:
    """Store the trace of the session, by ``deadline`` (``time.monotonic`` seconds). Raises ``RetrievalError``."""
    if settings.database_url is None:
        check_is_made(settings.own_home)
    is_told = options.folder is not None and options.session is not None
    hook = HookInput() if is_told else read_hook_input()
    folder = options.folder or Path(hook.folder or ".")
    if not folder.is_dir() and not options.tags:
        raise InvalidRequestError(f"{str(folder)!r:.200} is no folder, and no tags are given; nothing is stored")
    context = look_around(folder, deadline, say)

    async def work() -> Trace:
        # A vector of the trace is not waited for: jobs make it, where there is an embedder.
        async with connect(settings=Settings().changed(tenant=settings.tenant, embedder="none")) as platform:
            return await end_session(platform, options, hook, context)

    return asyncio.run(work())
