"""Find the documents in files and folders, and read them, within the folder and within size limits."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from retrieval.adapters.files import checked_path
from retrieval.adapters.readers.documents import RawDocument, format_of
from retrieval.domain.checks import is_storable, text_fault, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError

MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest file that is read."""

_FOLDERS_OF_TOOLS = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that holds a document."""

    path: Path
    document_id: str
    format: str
    within: Path | None = None
    """The folder that must contain it; None: a caller named the file itself."""
    folder_hash: str = ""
    """The hash of its folder, see ``FoundFolder``; empty: a caller named the file itself."""

    @property
    def size(self) -> int:
        """The bytes of the file now; 0 if it is gone."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def read(self, *, most_bytes: int = MAX_FILE_BYTES) -> RawDocument:
        """The file's contents. Raises ``InvalidItemError`` with the reason if it cannot or may not be read."""
        try:
            return RawDocument(document_id=self.document_id, data=self._bytes(most_bytes), format=self.format)
        except OSError as error:
            raise InvalidItemError(f"cannot be opened: {error.strerror or error}") from error

    def _bytes(self, most: int) -> bytes:
        if self.within is not None and not self.path.resolve().is_relative_to(self.within):
            raise InvalidItemError("lies outside of its folder")
        # Do not follow a link that has replaced the file, and do not wait for a pipe.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | (getattr(os, "O_NOFOLLOW", 0) if self.within else 0)
        with os.fdopen(os.open(self.path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidItemError("is not a regular file")
            if status.st_size > most:
                raise InvalidItemError(f"has {status.st_size:,} bytes; at most {most:,} are read; split it")
            data = file.read(most + 1)
        if len(data) > most:
            raise InvalidItemError(f"grew beyond {most:,} bytes while it was read")
        return data


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder of documents."""

    path: Path
    name: str
    """The beginning of its documents' ids, before a slash."""
    folder_hash: str
    """A hash of its path, or of the name that the caller gave, to distinguish folders of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The documents found in files and folders."""

    files: tuple[DocumentFile, ...]
    """The files in order of their ids."""
    folders: tuple[FoundFolder, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    """The number of files and folders that were left out, by ending or by reason."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Folders that could not be listed, each with the reason."""


def find_documents(paths: Sequence[str | os.PathLike[str]], name: str | None = None) -> FoundFiles:
    """The documents among the files, and below the folders.

    A document's id is its file's name; in a folder it is the folder's name and the path in the folder. ``name`` renames
    the one folder, or goes before a slash and the name of the one file. In a folder, hidden files, links, folders of
    tools and files with other endings are left out and counted. Raises ``InvalidRequestError`` for a missing path,
    another ending, an invalid name, and folders or documents of one name.
    """
    _check_name(name, paths)
    by_id: dict[str, DocumentFile] = {}
    skipped: Counter[str] = Counter()
    folders: dict[str, FoundFolder] = {}
    unreadable: list[tuple[str, str]] = []
    for named_path in paths:
        path = Path(checked_path(named_path))
        if path.is_dir():
            folder = _folder(path.resolve(), name)
            other_folder = folders.setdefault(folder.name, folder)
            if other_folder != folder:
                raise InvalidRequestError(
                    f"{other_folder.path} and {folder.path} are both called {folder.name!r}; ingest them one by one, "
                    "one of them under another name (--name, name=), or a folder above both"
                )
            new = list(_below(folder, skipped, unreadable))
        else:
            new = [_document_file(path, name)]
        for file in new:
            other = by_id.setdefault(file.document_id, file)
            if other is not file and not other.path.samefile(file.path):
                raise InvalidRequestError(
                    f"{other.path} and {file.path} would both be the document {file.document_id!r}; "
                    "ingest them one by one, one of them under another name (--name, name=), or a folder above both"
                )
    return FoundFiles(
        files=tuple(by_id[key] for key in sorted(by_id)),
        folders=tuple(folders.values()),
        skipped=dict(skipped.most_common()),
        unreadable=tuple(unreadable),
    )


def _check_name(name: object, paths: Sequence[object]) -> None:
    if name is None:
        return
    if not is_storable(name) or not name.strip("/ ") or name != name.strip("/ ") or text_fault(name, is_line=True):
        raise InvalidRequestError(f"name is {written(name)}; it must be a text on one line, with no slash at its ends")
    if len(paths) != 1:
        raise InvalidRequestError(f"name is for one folder or file, and there are {len(paths)}; ingest them one by one")


def _folder(root: Path, name: str | None) -> FoundFolder:
    # Hashed, because stored attributes are shown with hits and the path must stay on this machine.
    if name is None and not root.name:
        raise InvalidRequestError(
            f"{root}: documents are called after their folder, and this one has no name; ingest a folder below it, or "
            "give a name (--name, name=)"
        )
    identity = f"path {root}" if name is None else f"name {name}"
    folder_hash = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:12]
    return FoundFolder(root, root.name if name is None else name, folder_hash)


def holds_documents(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a folder, or a file with the ending of a document. Raises as ``checked_path`` does."""
    return Path(checked_path(path)).is_dir() or format_of(os.fspath(path)) is not None


def _document_file(path: Path, name: str | None) -> DocumentFile:
    format_ = format_of(path.name)
    if not path.exists():
        raise InvalidRequestError(f"{path}: there is no such file or folder")
    if format_ is None:
        raise InvalidRequestError(
            f"{path}: the name does not tell what document it is; call it .txt if it is a text, and ingest "
            "items (.jsonl, .csv) by a run of their own"
        )
    return DocumentFile(path, path.name if name is None else f"{name}/{path.name}", format_)


def _below(root: FoundFolder, skipped: Counter[str], unreadable: list[tuple[str, str]]) -> Iterator[DocumentFile]:
    def note_unreadable(error: OSError) -> None:
        unreadable.append((str(error.filename), f"cannot be listed: {error.strerror}"))

    for folder, folders, files in os.walk(root.path, onerror=note_unreadable):
        for name in list(folders):
            if (reason := _reason_to_skip(Path(folder, name))) is not None:
                skipped[reason] += 1
                folders.remove(name)
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            kind = format_of(name)
            reason = _reason_to_skip(path)
            if reason is None and kind is not None:
                key = f"{root.name}/{path.relative_to(root.path).as_posix()}"
                yield DocumentFile(path, key, kind, root.path, root.folder_hash)
            else:
                skipped[reason or PurePath(name).suffix.lower() or "no ending"] += 1


def _reason_to_skip(path: Path) -> str | None:
    if path.is_symlink():
        return "links"
    if path.name.startswith("."):
        return "hidden"
    return "folders of tools" if path.name in _FOLDERS_OF_TOOLS else None
