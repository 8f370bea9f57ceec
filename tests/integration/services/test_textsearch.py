"""pg_textsearch on a server without it: nothing is created, and nothing is queried."""

from __future__ import annotations

from retrieval import Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.search.textsearch import TextsearchState, textsearch_state
from retrieval.services.textsearch import TextsearchOutcome, keep_textsearch_index, rebuild_textsearch_index


async def test_without_the_extension_nothing_is_done(platform: Platform) -> None:
    """The wish is answered by the reason; searches go the portable way."""
    collection = await platform.collection("docs", space=None)
    await collection.add([{"_id": "1", "text": "alpha"}])
    stored = await collection.refresh()
    assert await keep_textsearch_index(platform.database, stored, rows=1) is TextsearchOutcome.NOT_INSTALLED
    assert await rebuild_textsearch_index(platform.database, stored) is TextsearchOutcome.NOT_NEEDED
    state = await textsearch_state(platform.database, stored.collection_id)
    assert state == TextsearchState(installed=False, loaded=False, has_table=False, is_served=False)
    statement = Compiled("SELECT has_textsearch(%(id)s::bigint)", {"id": stored.collection_id})
    assert await platform.database.read(platform.tenant_id, statement) == [(False,)]
    assert [hit.item_id for hit in await collection.search("alpha", legs=["lexical"])] == ["1"]
