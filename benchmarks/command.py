"""The command line of a benchmark, and the files that it writes: its figures as JSON, and its page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def parser_of(about: str | None, quick: str, *, has_server: bool = True) -> argparse.ArgumentParser:
    """The options of every benchmark; ``quick`` says what ``--quick`` does."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    if has_server:
        parser.add_argument("--server", metavar="URL", help="a superuser's; otherwise a server is started for the run")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="where the files go")
    return parser


def data_of(about: str | None) -> Path:
    """The folder of the test collections, the only argument."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    folder: Path = parser.parse_args().data
    return folder


def write(name: str, result: Any, page: str, folder: Path = RESULTS) -> None:
    """Write the figures and the page into the folder, and print the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)
