"""Data directories of embedded servers, made once a process and copied: making one takes as long as ten short tests."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from retrieval.adapters.store.installation.embedded.binaries import Binaries
from retrieval.adapters.store.installation.embedded.home_server import HomeServer


def copy_clusters(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let a home take a copy of what ``initdb`` made first for the same programs, account and settings.

    A test that replaces how programs run gets directories of its own, and a process that a test starts too.
    """
    make, run = HomeServer._initialise, Binaries.run  # noqa: SLF001 - what comes before and after it is not replaced

    def copy_or_make(home: HomeServer, directory: Path, settings: dict[str, str]) -> None:
        if Binaries.run is not run:
            make(home, directory, settings)
            return
        kind = hashlib.sha256(f"{home.binaries} {sorted(settings.items())}".encode()).hexdigest()[:16]
        kept = folder / kind
        if kept.exists():
            _copy(kept, directory)
        else:
            make(home, directory, settings)
            kept.mkdir(mode=0o700, parents=True)
            _copy(directory, kept)

    patch.setattr(HomeServer, "_initialise", copy_or_make)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["/bin/cp", "-a", f"{source}/.", str(target)], check=True)
