"""``python -m retrieval.surfaces.cli`` is the program ``retrieval``."""

from __future__ import annotations

from retrieval.surfaces.cli import main

main()
