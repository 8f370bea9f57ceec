"""Freezes the objects of the process that imports it, so that the garbage collectors of its forks skip them.

A collector that looks at an object writes to it, and so copies the memory that the processes share.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
