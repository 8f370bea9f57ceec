"""Files that the console stores in the background."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retrieval.surfaces.console.data import Upload, _store_upload


async def test_a_file_that_the_end_of_the_service_cuts_off_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """In the log: nobody else would know that a part of it is missing."""
    folder = tempfile.TemporaryDirectory()
    upload = Upload("shop", "tickets", folder, Path(folder.name, "tickets.csv"), is_table=True)
    service: Any = SimpleNamespace(of_tenant=lambda *_: asyncio.sleep(3600))
    storing = asyncio.create_task(_store_upload(service, upload, {}))
    await asyncio.sleep(0)
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    assert "while tickets.csv was stored in the collection 'tickets': a part is stored" in caplog.text
