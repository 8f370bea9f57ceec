"""What benchmarks share: their options, the facts about the machine, progress, and the files that they write."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

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


def machine() -> dict[str, Any]:
    """The date, and the machine that a result belongs to: ``cores`` are those that this process may use."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
    }


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def write(name: str, result: Any, page: str, folder: Path = RESULTS) -> None:
    """Write the figures and the page into the folder, and print the page."""
    write_json(name, result, folder)
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)


def write_json(name: str, result: Any, folder: Path = RESULTS) -> None:
    """Write the figures into the folder, also those of an unfinished run: a later failure loses no measurement."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
