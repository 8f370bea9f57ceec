"""Readiness: whether the service can serve requests, and if not, which part is at fault.

The check calls the database and the embedder. It calls the embedder through its breaker, like a search: an open breaker
reports the outage that searches found, and the check may be the probe that closes it. Language model and reranker cost
more, and are not called.

The result reveals no internals, and is reused for a while, so that frequent requests cost little.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from retrieval.adapters.endpoints.breaker import EMBEDDER, LANGUAGE_MODEL, RERANKER, Role
from retrieval.adapters.store.deadline import LateError, within
from retrieval.adapters.store.installation.opening import check_revision
from retrieval.domain import errors
from retrieval.platform import Platform
from retrieval.surfaces.http.caller import Service
from retrieval.surfaces.http.problems import IN_LOG, problem_type

OK, UNKNOWN = "ok", "not checked: see the others"
NO_EMBEDDER = "none: searches are by words only"
NONE = "none"

DATABASE_SECONDS = 2.0
"""The time limit of the database."""

HOLDS_SECONDS, EMBEDDER_HOLDS_SECONDS, ILL_EMBEDDER_HOLDS_SECONDS = 1.0, 60.0, 5.0
"""The seconds for which the results are reused; a working embedder is rarely called, because it may cost money."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of each part: ``ok``, or its fault."""

    database: str
    schema: str
    pool: str
    embedder: str
    language_model: str
    reranker: str
    replicas: str = NONE
    """``ok``, ``none``, or the number of replicas that searches pass over, to read from the primary."""

    @property
    def is_ready(self) -> bool:
        """Whether requests can be served; searches do not require embedder, language model and reranker."""
        return self.database == self.schema == self.pool == OK

    @property
    def status(self) -> Literal["ready", "degraded", "not ready"]:
        """``ready``, ``degraded`` (without a model or a replica that is configured) or ``not ready``."""
        if not self.is_ready:
            return "not ready"
        models = {self.language_model, self.reranker}
        is_whole = self.embedder in (OK, NO_EMBEDDER) and models | {self.replicas} <= {OK, NONE}
        return "ready" if is_whole else "degraded"


_State = tuple[str, str]
"""A part, and its state."""


class ReadinessCheck:
    """Checks the parts; reuses results for a while, and runs one check for all waiting requests."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock = service, clock
        self._known: dict[Callable[[Service], Awaitable[_State]], tuple[float, _State]] = {}
        self._checking = asyncio.Lock()

    async def __call__(self) -> Readiness:
        """Check every part."""
        async with self._checking:
            part, state = await self._state(_database_state, HOLDS_SECONDS)
            states = {"database": OK, "schema": OK, "pool": OK} | {part: state}
            if states["database"] != OK:
                states |= {"schema": UNKNOWN, "pool": UNKNOWN}
                return Readiness(**states, embedder=UNKNOWN, language_model=UNKNOWN, reranker=UNKNOWN)
            host = await self._service.host()
            _, embedder = await self._state(
                _embedder_state, EMBEDDER_HOLDS_SECONDS, ILL_EMBEDDER_HOLDS_SECONDS, in_doubt=_is_out(host, EMBEDDER)
            )
            return Readiness(
                **states,
                embedder=embedder,
                language_model=_model_state(host, LANGUAGE_MODEL, lambda: host.llm),
                reranker=_model_state(host, RERANKER, lambda: host.reranker),
                replicas=await _replicas_state(host),
            )

    async def _state(
        self,
        ask: Callable[[Service], Awaitable[_State]],
        well_seconds: float,
        ill_seconds: float = HOLDS_SECONDS,
        *,
        in_doubt: bool = False,
    ) -> _State:
        """The state that ``ask`` returns, reused for a while; ``in_doubt``: a state without a fault is not reused."""
        until, state = self._known.get(ask, (-1.0, ("", "")))
        if self._clock() >= until or (in_doubt and state[1] in (OK, NO_EMBEDDER)):
            state = await ask(self._service)
            holds = well_seconds if state[1] in (OK, NO_EMBEDDER) else ill_seconds
            self._known[ask] = self._clock() + holds, state
        return state


async def _database_state(service: Service) -> _State:
    try:
        await within(_check_database(service), DATABASE_SECONDS)
    except errors.SchemaRevisionError as error:
        return "schema", _fault(error)
    except errors.PoolExhaustedError as error:
        return "pool", _fault(error)
    except (LateError, errors.DeadlineError):
        # The time limit of a probe ends before the wait for a connection does.
        if any(platform.database.pool.is_exhausted for platform in service.opened[:1]):
            return "pool", _fault(errors.PoolExhaustedError(""))
        return "database", f"no answer within {DATABASE_SECONDS:g} s"
    except errors.RetrievalError as error:
        return "database", _fault(error)
    return "database", OK


async def _check_database(service: Service) -> None:
    await check_revision((await service.host()).database)


async def _embedder_state(service: Service) -> _State:
    host = await service.host()
    try:
        is_there = await host.try_embedder()
    except errors.RetrievalError as error:
        return "embedder", _fault(error)
    if _is_out(host, EMBEDDER):
        # The outage is of another embedder than that of new collections.
        return "embedder", _fault(errors.EmbedderUnavailableError(""))
    return "embedder", OK if is_there else NO_EMBEDDER


async def _replicas_state(host: Platform) -> str:
    replicas = host.database.replicas
    if replicas is None:
        return NONE
    with suppress(LateError):
        await within(replicas.look(), DATABASE_SECONDS)
    away = sum(bool(replica.passed_over) for replica in replicas.states)
    return f"{away} of {len(replicas.states)} passed over" if away else OK


def _is_out(host: Platform, role: Role) -> bool:
    return any(outage.role == role.name for outage in host.outages)


def _model_state(host: Platform, role: Role, model: Callable[[], object]) -> str:
    try:
        is_there = model() is not None
    except errors.RetrievalError as error:
        return _fault(error)
    if _is_out(host, role):
        return _fault(role.unavailable(""))
    return OK if is_there else NONE


def _fault(error: errors.RetrievalError) -> str:
    """The text about the error, which no check logs."""
    return (problem_type(type(error)).detail or "faulty").removesuffix(IN_LOG)
