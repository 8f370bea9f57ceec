"""Freezes the objects of the process that imports it, so that the garbage collectors of its forks skip them.

A collector that looks at an object writes to it, and so copies the memory that the processes share. What each
run would build for itself, the same each time, is built before.
"""

from __future__ import annotations

import gc

from retrieval.adapters.store.installed_sql import build
from retrieval.surfaces.cli import app

for name in app._PANEL_OF:  # noqa: SLF001 - the commands, which are built when they are named
    app._command(name)  # noqa: SLF001
build()

gc.collect()
gc.freeze()
