#!/usr/bin/env python3
"""Write the types of the TypeScript client from the service's description, and compile the client.

The generator comes from npm. With --check, only say whether the types are current; that needs no Node.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from retrieval import Settings
from retrieval.surfaces.http.app import create_app

CLIENT = Path(__file__).resolve().parents[1] / "clients" / "typescript"
TYPES = CLIENT / "src" / "schema.ts"


def description() -> dict[str, Any]:
    """The OpenAPI description of the service, without the version, which changes with every release."""
    described = create_app(Settings(embedder="none")).openapi()
    return {**described, "info": {**described["info"], "version": ""}}


def header(described: dict[str, Any]) -> str:
    """The first line of the types, which names the description that they were generated from."""
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return f"// Made by scripts/typescript_client.py from the description with the SHA-256 {digest}\n"


def is_current() -> bool:
    """Whether the types were generated from the description of this service."""
    return TYPES.is_file() and TYPES.read_text(encoding="utf-8").startswith(header(description()))


def write() -> None:
    """Write the types by openapi-typescript, in the version of the lock file, and compile the client."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("Node and npm are needed to make the TypeScript client; on Debian and Ubuntu: apt install nodejs npm")
    subprocess.run([npm, "ci", "--ignore-scripts"], cwd=CLIENT, check=True)
    described = description()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "openapi.json", Path(folder) / "schema.ts"
        source.write_text(json.dumps(described), encoding="utf-8")
        subprocess.run([npm, "run", "--silent", "generate", "--", str(source), str(target)], cwd=CLIENT, check=True)
        TYPES.write_text(header(described) + target.read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run([npm, "run", "--silent", "build"], cwd=CLIENT, check=True)


def main() -> int:
    """The exit code: 1 if ``--check`` finds that the types are not those of this service."""
    if "--check" not in sys.argv[1:]:
        write()
    elif not is_current():
        sys.stderr.write(f"{TYPES} does not have the types of this service; run: make client\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
