#!/usr/bin/env python3
"""Write the table of docs/reference/errors.md from the classes. With --check, only say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from retrieval.surfaces.http.error_reference import HEAD, error_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "errors.md"


def main() -> int:
    """The exit code: 1 where the page is not what the classes say, and was only to be checked."""
    page = PAGE.read_text(encoding="utf-8")
    written = page[: page.index(HEAD)] + error_table()
    if "--check" in sys.argv[1:]:
        if page == written:
            return 0
        sys.stderr.write(f"{PAGE} is not what the classes say; run: python scripts/error_reference.py\n")
        return 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
