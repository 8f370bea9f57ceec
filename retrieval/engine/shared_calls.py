"""Calls of language models, shared by all callers with the same question, and cached rewrites."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from retrieval.adapters.clock import Clock, moment
from retrieval.adapters.endpoints.breaker import LANGUAGE_MODEL, Guards
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import in_background
from retrieval.adapters.store.search.rewrites import cached_rewrites, keep_rewrites
from retrieval.domain.errors import PLATFORM_CLOSED, DatabaseError, LLMError, LLMUnavailableError
from retrieval.domain.llm import ERROR_LENGTH, LLM, model_name, plain_error, printable_line

_log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_CALLS = 256
"""The most calls at the same time; further calls are refused."""

LONGEST_SECONDS = 300.0
"""The time limit of a call, which may outlast the caller who started it: a late answer serves the next caller."""


@dataclass(slots=True)
class _Call:
    task: asyncio.Task[Any]
    waiting: int = 0


class SharedCalls:
    """A platform's running calls of language models, by key. Belongs to one event loop."""

    def __init__(self, guards: Guards | None = None) -> None:
        """``guards``: the breakers that all callers of the same language models share."""
        self._guards = guards or Guards(LANGUAGE_MODEL)
        self._calls: dict[Hashable, _Call] = {}
        self._is_closed = False
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, key: Hashable) -> asyncio.Lock:
        """The lock of that key, for work that must not run for several answers at the same time."""
        return self._locks.setdefault(key, asyncio.Lock())

    async def json(
        self, llm: LLM, prompt: str, schema: Mapping[str, Any], *, system: str = "", seconds: float | None = None
    ) -> Any:
        """A language model's answer, checked against the schema, called through its breaker.

        ``seconds``: as of ``answer``, which names the errors.
        """
        from retrieval.adapters.llms.json_shape import JSONShape  # searches do not need its libraries

        async def ask() -> Any:
            return JSONShape(schema).checked(await llm.complete_json(prompt, schema, system=system))

        return await self.answer(llm, ask, seconds)

    async def answer(self, llm: LLM, ask: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """The answer of ``ask``, which asks the language model once, called through its breaker.

        After ``seconds`` the breaker counts a spent budget; None: never. Raises ``LLMUnavailableError``, also after
        ``LONGEST_SECONDS``, and ``LLMRejectedError``: other errors of a model, its own cancellation too, are converted
        to these.
        """
        name = model_name(llm)

        async def ask_or_explain() -> T:
            limit = asyncio.timeout(LONGEST_SECONDS)
            try:
                async with limit:
                    return await ask()
            except LLMError:
                raise
            except asyncio.CancelledError as error:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise  # the caller is cancelled
                raise LLMUnavailableError(f"{name} failed: it was cancelled from within") from error
            except Exception as error:
                if limit.expired():
                    raise LLMUnavailableError(f"{name} gave no answer within {LONGEST_SECONDS:g} s") from None
                _log.warning("%s failed\n%s", name, _traceback(error))
                kind, message = type(error).__name__, plain_error(error)
                description = kind if message == kind else printable_line(f"{kind} {message}", ERROR_LENGTH)
                raise LLMUnavailableError(f"{name} failed: {description}") from error

        return await self._guards.of(llm, name).call(ask_or_explain, seconds)

    async def result(
        self, key: Hashable, make: Callable[[], Coroutine[Any, Any, Any]], seconds: float | None = None
    ) -> Any:
        """The result, or the error, of the running call with that key, or else of a new call.

        Raises ``TimeoutError`` after ``seconds``, while the call continues, and ``LLMUnavailableError`` if too many
        calls run or the platform is closed. If its last waiting caller is cancelled, the call is cancelled too.
        """
        call = self._calls.get(key)
        if call is None or call.task.cancelling():  # a cancelled call, which may take time to end, has no result
            call = self._start(key, make)
        task = call.task
        call.waiting += 1
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            if call.waiting == 1:
                task.cancel()
            raise
        finally:
            call.waiting -= 1
        if not task.done():
            raise TimeoutError
        if task.cancelled():
            raise LLMUnavailableError("the platform was closed before the language model answered; open it again")
        return task.result()

    async def aclose(self) -> None:
        """Cancel the running calls."""
        self._is_closed = True
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, Any]]) -> _Call:
        if self._is_closed or len(self._calls) >= MOST_CALLS:
            why = PLATFORM_CLOSED if self._is_closed else f"{MOST_CALLS} calls are running already; try again later"
            raise LLMUnavailableError(f"the language model was not asked: {why}")
        call = self._calls[key] = _Call(in_background(make()))
        call.task.add_done_callback(lambda ended: self._settle(key, ended))
        return call

    def _settle(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        call = self._calls.get(key)
        if call is not None and call.task is task:
            del self._calls[key]
        # The call may have no waiting caller left, so its error is logged here.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("a call of a language model failed: %s", error)


def _traceback(error: BaseException) -> str:
    """The error's traceback, encodable as UTF-8 for a log."""
    return "".join(traceback.format_exception(error)).encode(errors="replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteCache:
    """One tenant's cached rewrites. Errors of the database are not raised: they count as cache misses."""

    database: Database
    tenant_id: int
    wall_clock: Clock
    """Seconds since 1970."""
    days: float
    """Days until rewrites expire."""

    async def read(self, model: str, query: str, *, instructions: str) -> list[str] | None:
        """The cached rewrites of a query by that model and instructions; None: not cached, or expired."""
        try:
            whose = (self.database, self.tenant_id, model, query)
            return await cached_rewrites(*whose, moment(self.wall_clock()), instructions=instructions)
        except DatabaseError as error:
            _log.info("rewrites were not read: %s", error)
            return None

    async def keep(self, model: str, query: str, rewrites: Sequence[str], *, instructions: str) -> None:
        """Cache the rewrites until they expire."""
        expires_at = moment(self.wall_clock()) + timedelta(days=self.days)
        whose = (self.database, self.tenant_id, model, query)
        try:
            await keep_rewrites(*whose, rewrites, expires_at=expires_at, instructions=instructions)
        except DatabaseError as error:
            _log.info("rewrites were not stored: %s", error)
