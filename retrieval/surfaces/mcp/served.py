"""What the tools share: the tools that are offered, and the caller's platform, rights and session."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver import Context

from retrieval.apps.principles.principle import COLLECTION
from retrieval.domain.api_key import EVERY_SCOPE, Caller, Scope
from retrieval.domain.checks import choices_hint, shown_line, written
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.settings import Settings
from retrieval.surfaces.mcp.values import ToolGroup
from retrieval.surfaces.tenants import Holder, PlatformOpening, ServedPlatforms, give_back

if TYPE_CHECKING:
    from retrieval.platform import Platform

T = TypeVar("T")

READ_ONLY = frozenset({Scope.READ})

_USUAL: Mapping[ToolGroup, frozenset[Scope]] = MappingProxyType(
    {ToolGroup.PRINCIPLES: EVERY_SCOPE, ToolGroup.COLLECTIONS: READ_ONLY, ToolGroup.MEMORIES: READ_ONLY}
)
EVERY_TOOL: Mapping[ToolGroup, frozenset[Scope]] = MappingProxyType(dict.fromkeys(ToolGroup, EVERY_SCOPE))


def groups_named(names: Iterable[str]) -> Mapping[ToolGroup, frozenset[Scope]]:
    """The scopes of each named group of tools: ``collections``, or ``collections:read`` for reading only.

    A name may be a list with commas. Raises ``InvalidRequestError`` for an unknown name.
    """
    scopes: dict[ToolGroup, frozenset[Scope]] = {}
    known = [form for group in ToolGroup for form in (group.value, f"{group}:{Scope.READ}")]
    for name in (part.strip() for text in names for part in text.split(",")):
        if name not in known:
            raise InvalidRequestError(f"there are no tools {written(name)}; {choices_hint(name, known)}")
        group, _, scope = name.partition(":")
        scopes[ToolGroup(group)] = READ_ONLY if scope else EVERY_SCOPE
    return scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The tools that a server offers: groups with the scopes of their tools, and the collections of two groups."""

    groups: Mapping[ToolGroup, frozenset[Scope]] = field(default_factory=lambda: _USUAL)
    principles: str = COLLECTION
    memories: str = "memories"
    is_read_only: bool = False

    def read_only(self) -> Offer:
        """The same groups with the tools that only read."""
        return replace(self, groups=dict.fromkeys(self.groups, READ_ONLY), is_read_only=True)


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""The caller of a request with an API key; None: the server's own user."""

_HOLDER: ContextVar[Holder] = ContextVar("holder")


class Served(ServedPlatforms):
    """The state that the tools share: the caller's platform, rights and session.

    ``session`` names the session of clients that have none; left out: a random one.
    """

    def __init__(self, settings: Settings, offer: Offer | None = None, session: str | None = None) -> None:
        super().__init__(settings, PlatformOpening(self._connect))
        self.offer = offer or Offer()
        self._session = session or f"mcp-{uuid.uuid4()}"

    @property
    def caller(self) -> Caller:
        """The current caller."""
        return CALLER.get() or Caller(self.settings.tenant, EVERY_SCOPE)

    def allows(self, group: ToolGroup, scope: Scope) -> bool:
        """Whether a tool of that group and scope is offered to the caller."""
        granted = self.offer.groups.get(group, frozenset())
        return self.caller.may(scope) and not granted.isdisjoint({scope, Scope.ADMIN})

    async def platform(self) -> Platform:
        """The platform of the caller's tenant, which stays open until the end of the call."""
        tenant = self.caller.tenant
        return await (self.host() if tenant == self.settings.tenant else self.of_tenant(tenant, _HOLDER.get()))

    async def holding(self, name: str) -> Platform | None:
        """The platform if it has a collection of that name; None: nothing was stored in it yet, and nothing is made."""
        platform = await self.platform()
        try:
            await platform.collection(name, create=False)
        except UnknownCollectionError:
            return None
        return platform

    def session_of(self, ctx: Context) -> str:
        """The client's session over HTTP; over standard input and output, the session of the only client.

        An HTTP client without a session is identified by its key or its address: if each of its calls counted as a
        session, the client could prove its own principles by rating them often.
        """
        if ctx.headers is None:
            return self._session
        if session := ctx.headers.get(SESSION_HEADER):
            return f"mcp-{session}"
        if self.caller.key_id:
            return f"{self._session}-{self.caller.key_id}"
        client = getattr(ctx.request_context.request, "client", None)
        return f"{self._session}-{client.host}" if client else self._session

    @staticmethod
    def client_of(ctx: Context) -> str:
        """The client's name, such as ``mcp:editor``, which is stored with what it adds."""
        about = ctx.session.client_params
        return shown_line(f"mcp:{about.client_info.name}", LONGEST_CLIENT) if about else "mcp"

    def _connect(self) -> Platform:
        from retrieval.platform import connect

        return connect(settings=self.settings)


async def held(call: Coroutine[Any, Any, T]) -> T:
    """The result of the call; the tenant's platform that it uses stays open until then."""
    holder: Holder = {}
    _HOLDER.set(holder)
    try:
        return await call
    finally:
        give_back(holder)


LONGEST_CLIENT = 100
"""The number of characters of a client's name that are stored with its additions."""

SESSION_HEADER = "mcp-session-id"
