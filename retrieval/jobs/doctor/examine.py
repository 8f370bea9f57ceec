"""An examination from outside: the database is opened for it, and nothing is made that a first call would make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import ChosenEmbedders
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.embedded.cluster import hanging_seconds
from retrieval.adapters.store.installation.embedded.place import default_home
from retrieval.adapters.store.installation.opening import open_database
from retrieval.adapters.store.items.collections import find_collection, find_tenant
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.collection_name import check_collection_name
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, UnknownCollectionError
from retrieval.jobs.doctor.diagnose import diagnose
from retrieval.jobs.workplace import Workplace
from retrieval.settings import Settings


async def examine(settings: Settings, collection: str | None = None) -> Diagnosis:
    """What ``diagnose`` finds, with neither the tenant nor months of searches made where they are missing.

    An embedded server is started, and set up the first time. Raises ``UnknownCollectionError``, and ``DatabaseError``
    where the database does not open.
    """
    if collection is not None:
        check_collection_name(collection)
    async with AsyncExitStack() as stack:
        hung = [] if settings.database_url else list(check_embedded(settings.home or default_home()))
        database = await open_database(settings, stack)
        embedders = ChosenEmbedders(settings)
        stack.push_async_callback(embedders.aclose)

        def embedder_of(tenant_id: int, space: StoredSpace) -> CachedEmbedder | None:
            return embedders.of(space, database, tenant_id)

        workplace = Workplace(database, settings, embedder_of)
        try:
            tenant_id = await _tenant(database, settings.tenant, collection)
        except DatabaseUnreachableError:
            raise
        except DatabaseError as error:
            found = await diagnose(workplace, None, collection, unread=error)
        else:
            found = await diagnose(workplace, tenant_id, collection)
        return diagnosis_of([*hung, *found.findings], found.examined_at)


def check_embedded(home: Path) -> Iterator[Finding]:
    """The embedded server did not hang when the examination began: to open it is to mend that."""
    seconds = hanging_seconds(home.expanduser().resolve() / "data")
    if seconds is not None:
        yield Finding(
            check="postgresql",
            severity=Severity.WARNING,
            found=f"the embedded server had been stopping for {seconds:,.0f} seconds and hung: it was ended and started"
            " anew, and nothing that was committed is lost",
            mend=f"see {home / 'server.log'} for what went before: often a process was killed, as memory ran out",
        )


async def _tenant(database: Database, name: str, collection: str | None) -> int | None:
    """The tenant, which has that collection; None: it is not there, and no collection was named."""
    tenant_id = await find_tenant(database, name)
    if collection is None:
        return tenant_id
    if tenant_id is None or await find_collection(database, tenant_id, collection) is None:
        raise UnknownCollectionError(
            f"there is no collection {collection!r} of tenant {name!r}; retrieval collections shows those there are"
        )
    return tenant_id
