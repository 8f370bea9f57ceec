"""A collection is removed with all that is its own."""

from __future__ import annotations

import logging

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.removal import remove_itself, remove_next_items, remove_records
from retrieval.jobs.indexes import drop_indexes
from retrieval.jobs.textsearch import TextsearchOutcome, drop_textsearch_index

_log = logging.getLogger(__name__)

ITEMS, RECORDS = 500, 5000
"""Items, and rows of records, that one transaction removes."""


async def remove_collection(database: Database, tenant_id: int, collection_id: int) -> bool:
    """Remove the collection part by part; whether it was there at the end, and this call removed it.

    Searches and writes go on until then, on what is left of it. Interrupted, the next call goes on from there.
    """
    textsearch = await drop_textsearch_index(database, collection_id)
    done = {TextsearchOutcome.NOT_NEEDED, TextsearchOutcome.DROPPED}
    if not await drop_indexes(database, tenant_id, collection_id) or textsearch not in done:
        _log.warning("indexes of the removed collection %d are left to the tables' owner", collection_id)
    while await remove_next_items(database, tenant_id, collection_id, ITEMS):
        pass
    await remove_records(database, tenant_id, collection_id, RECORDS)
    return await remove_itself(database, tenant_id, collection_id)
