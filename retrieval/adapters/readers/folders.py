"""The documents of files and folders: which ones there are, and their bytes, within the folder and within bounds."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from retrieval.adapters.readers.documents import RawDocument, format_of
from retrieval.domain.checks import is_storable, text_fault
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
    """The folder that it may not lie outside of; None: it was named itself."""
    place: str = ""
    """The place of its folder, see ``FoundFolder``; empty: it was named itself."""

    def read(self, *, most_bytes: int = MAX_FILE_BYTES) -> RawDocument:
        """Its bytes. Raises ``InvalidItemError`` with the reason where it cannot be read, or may not."""
        try:
            return RawDocument(document_id=self.document_id, data=self._bytes(most_bytes), format=self.format)
        except OSError as error:
            raise InvalidItemError(f"cannot be opened: {error.strerror or error}") from error

    def _bytes(self, most: int) -> bytes:
        if self.within is not None and not self.path.resolve().is_relative_to(self.within):
            raise InvalidItemError("lies outside of its folder")
        # A link that took the file's place is not followed, and a pipe is not waited for.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | (getattr(os, "O_NOFOLLOW", 0) if self.within else 0)
        with os.fdopen(os.open(self.path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidItemError("is no file")
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
    """The name with which the ids of its documents begin, before a slash."""
    place: str
    """A hash that tells it from other folders of that name: of its path, or of the name that it was given."""


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

    A folder's document has the folder's name and its path from there as its id, a file's its name; ``name`` is another
    name for the one folder, or stands before a slash and the name of the one file. Below a folder hidden files, links,
    folders of tools and files of other endings are left out and counted. Raises ``InvalidRequestError`` for a path that
    is not there, a file of another ending, two folders of one name, two documents of one id, and a name that cannot be.
    """
    _check_name(name, paths)
    found: dict[str, DocumentFile] = {}
    skipped: Counter[str] = Counter()
    folders: dict[str, FoundFolder] = {}
    unreadable: list[tuple[str, str]] = []
    for given in paths:
        if not isinstance(given, str | os.PathLike) or not os.fspath(given):
            raise InvalidRequestError(f"{given!r:.80} is no path; name a file or a folder, such as '.' for this one")
        path = Path(given)
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
            new = [_named(path, name)]
        for file in new:
            other = found.setdefault(file.document_id, file)
            if other is not file and not other.path.samefile(file.path):
                raise InvalidRequestError(
                    f"{other.path} and {file.path} would both be the document {file.document_id!r}; "
                    "ingest them one by one, one of them under another name (--name, name=), or a folder above both"
                )
    ordered = tuple(found[key] for key in sorted(found))
    return FoundFiles(
        files=ordered,
        folders=tuple(folders.values()),
        skipped=dict(skipped.most_common()),
        unreadable=tuple(unreadable),
    )


def _check_name(name: object, paths: Sequence[object]) -> None:
    if name is None:
        return
    if not is_storable(name) or not name.strip("/ ") or name != name.strip("/ ") or text_fault(name, is_line=True):
        raise InvalidRequestError(f"name is {name!r:.80}; it must be a text on one line, with no slash at its ends")
    if len(paths) != 1:
        raise InvalidRequestError(f"name is for one folder or file, and there are {len(paths)}; ingest them one by one")


def _folder(root: Path, name: str | None) -> FoundFolder:
    # The path itself stays on this machine: stored attributes are shown with hits.
    known_by = f"path {root}" if name is None else f"name {name}"
    place = hashlib.sha256(known_by.encode(errors="surrogateescape")).hexdigest()[:12]
    return FoundFolder(root, root.name if name is None else name, place)


def holds_documents(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a folder, or a file whose name is a document's."""
    return Path(path).is_dir() or format_of(os.fspath(path)) is not None


def _named(path: Path, name: str | None) -> DocumentFile:
    found = format_of(path.name)
    if not path.exists():
        raise InvalidRequestError(f"{path}: there is no such file or folder")
    if found is None:
        raise InvalidRequestError(
            f"{path}: the name does not tell what document it is; call it .txt if it is a text, and ingest "
            "items (.jsonl, .csv) by a run of their own"
        )
    return DocumentFile(path, path.name if name is None else f"{name}/{path.name}", found)


def _below(root: FoundFolder, skipped: Counter[str], unreadable: list[tuple[str, str]]) -> Iterator[DocumentFile]:
    def refused(error: OSError) -> None:
        unreadable.append((str(error.filename), f"cannot be listed: {error.strerror}"))

    for folder, folders, files in os.walk(root.path, onerror=refused):
        for name in list(folders):
            if (reason := _left_out(Path(folder, name))) is not None:
                skipped[reason] += 1
                folders.remove(name)
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            kind = format_of(name)
            reason = _left_out(path)
            if reason is None and kind is not None:
                key = f"{root.name}/{path.relative_to(root.path).as_posix()}"
                yield DocumentFile(path, key, kind, root.path, root.place)
            else:
                skipped[reason or PurePath(name).suffix.lower() or "no ending"] += 1


def _left_out(path: Path) -> str | None:
    """Return the reason why a file or folder below a folder is not read; None: it is read."""
    if path.is_symlink():
        return "links"
    if path.name.startswith("."):
        return "hidden"
    return "folders of tools" if path.name in _FOLDERS_OF_TOOLS else None
