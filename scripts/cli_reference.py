#!/usr/bin/env python3
"""Write docs/reference/cli.md from the program's own help. With --check, only say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from retrieval.surfaces.cli.reference import reference

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"


def main() -> int:
    """The exit code: 1 where the page is not what the program says, and was only to be checked."""
    written = reference()
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == written:
            return 0
        print(f"{PAGE} is not what the program's help says; run: python scripts/cli_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
