"""Every error that the platform raises on purpose.

    RetrievalError
    ├── ConfigurationError          settings that cannot work
    │   ├── MissingExtraError       an optional dependency is not installed
    │   └── NoLanguageModelError    the call needs a language model, and none is configured
    ├── DatabaseError               the database cannot serve
    │   ├── DatabaseUnreachableError
    │   ├── EmbeddedServerError     the embedded PostgreSQL did not start or stop
    │   ├── UnsupportedDatabaseError
    │   ├── SchemaRevisionError     the schema is behind or ahead of this code
    │   ├── MissingPrivilegeError
    │   ├── PoolExhaustedError      no connection became free in time
    │   └── DatabaseBusyError       it gave up waiting for other transactions: try again later
    ├── DeadlineError               not done within the time that the caller gave
    ├── InvalidRequestError         the caller's input (also a ValueError)
    │   ├── EmptyQueryError
    │   ├── InvalidLimitError
    │   ├── InvalidFilterError
    │   │   └── UnknownFieldError
    │   │       └── IncomparableValueError
    │   ├── InvalidVectorError      NaN, zero, not a vector
    │   │   └── WrongDimensionError
    │   ├── InvalidItemError        carries the item's key when it has one
    │   ├── InvalidProfileError
    │   └── BadLineError            a line of a file; carries file, line, reason
    ├── NotFoundError
    │   ├── UnknownCollectionError
    │   ├── UnknownRetrievalError
    │   ├── UnknownItemError
    │   └── UnknownKeyError
    ├── ConflictError               the stored data differ from the caller's assumption
    │   └── VersionConflictError    an item was changed, created or removed meanwhile; carries its id
    ├── EmbedderError
    │   ├── EmbedderUnavailableError    down, slow or overloaded: try again later
    │   └── EmbedderRejectedError       it answered with a refusal, or its answer is not usable
    ├── LLMError
    │   ├── LLMUnavailableError     down, slow or overloaded: try again later
    │   └── LLMRejectedError        it answered with a refusal, or its answer is not usable
    ├── RerankerError
    │   ├── RerankerUnavailableError    down, slow or overloaded: try again later
    │   └── RerankerRejectedError       it answered with a refusal, or its answer is not usable
    └── RunningLoopError            the sync door was used inside a running event loop

A message says what happened and what to do next, in one line. Catch ``RetrievalError`` to catch them all.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

PLATFORM_CLOSED = (
    "the platform is closed; open it again (platform.open(), or a with statement), and get its collections from it "
    "again"
)
"""The message about a call after the end of a platform, or of the platform that a collection came from."""

OTHER_LOOP = (
    "the platform was opened in another event loop; open, use and close it in the same asyncio.run(...), or use "
    "retrieval.sync"
)
"""The message about a call in another loop than that of the platform."""


class Advice(Enum):
    """The advice of an error, in the words of the command line; other surfaces have their own words for each."""

    MAKE_COLLECTION = "make it with: retrieval ingest {name} {file}"
    REMEMBER = (
        "its first memory makes it: retrieval memories remember FILE --collection {name} --project ID --session NAME"
    )
    LIST_PROFILES = "see: retrieval profiles list {name}"
    DECLARE_ANEW = "to change it: retrieval collections filterable {name} --drop {attribute} {attribute}:{kind}"
    CALIBRATE = (
        "fit it with: retrieval calibrate {name} (in Python: calibrate), or give min_score instead of min_relevance"
    )
    BEGIN_REEMBEDDING = "begin one with: retrieval reembed {name} --to SPACE"
    END_REEMBEDDING = "let it end, or end it with: retrieval reembed {name} {action}"
    MAP_ID = "map the column of the ids: --map id=NAME (in Python: columns=)"
    MAP_OR_MAKE_ID = (
        "map the entry of the ids: --map id=NAME (in Python: columns=), or make ids of the texts: --id-from text "
        "(id_from=)"
    )
    MAP_TEXT = "did you mean --map text={name}?"
    NAME_TEXT = "map the column of the texts: --map text=NAME (in Python: columns=)"
    CLEAN_TEXT = "take it out, as retrieval.clean_text does"
    GIVE_VECTORS = (
        "leave it out, and the text is embedded; or keep it as data, in 'metadata' (--map attributes.{name}={name}); "
        "your own vectors are given in Python: add(items, embeddings=[...])"
    )


class RetrievalError(Exception):
    """The root of the tree: everything the platform raises on purpose."""

    advice: Advice | None = None
    _advice_text: str = ""

    @property
    def fact(self) -> str:
        """The fact that the error states, without the advice."""
        return super().__str__()

    def advising(self, advice: Advice, **values: str) -> Self:
        """The error with this advice, filled with the values."""
        self.advice, self._advice_text = advice, advice.value.format(**values)
        return self

    def __str__(self) -> str:
        return f"{self.fact}; {self._advice_text}" if self.advice else self.fact

    def __reduce__(self) -> tuple[Any, ...]:
        # Without it, a copy would be made by the constructor, which may take other arguments than the error keeps.
        return _as_sent, (type(self), self.args), vars(self)


def _as_sent(kind: type[RetrievalError], arguments: tuple[object, ...]) -> RetrievalError:
    """The error that another process sent, or a copy, still without its attributes."""
    return kind.__new__(kind, *arguments)


class ConfigurationError(RetrievalError):
    """Settings that cannot work."""


class NoLanguageModelError(ConfigurationError):
    """The call needs a language model, and none is configured."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is not installed; the message carries the install command."""


class DatabaseError(RetrievalError):
    """The database cannot serve the request."""


class DatabaseUnreachableError(DatabaseError):
    """No server answered at the configured address."""


class EmbeddedServerError(DatabaseError):
    """The embedded PostgreSQL did not start or stop."""


class UnsupportedDatabaseError(DatabaseError):
    """PostgreSQL, pgvector, the database or a setting of the login is not one that the platform can use."""


class SchemaRevisionError(DatabaseError):
    """The schema in the database is behind or ahead of this code."""


class MissingPrivilegeError(DatabaseError):
    """The connecting role lacks a privilege that the call needs."""


class PoolExhaustedError(DatabaseError):
    """No connection became free within the acquire timeout."""


class DatabaseBusyError(DatabaseError):
    """The database gave up waiting for other transactions; the same call may work later."""


class DeadlineError(RetrievalError):
    """The call did not end within the time that the caller gave."""


class InvalidRequestError(RetrievalError, ValueError):
    """The caller's input cannot be served as it is.

    ``location``: the keys and list positions that lead to the wrong part of the input; empty: not known.
    """

    location: tuple[str | int, ...] = ()

    def at(self, *location: str | int) -> Self:
        """The error with that location."""
        self.location = location
        return self


class EmptyQueryError(InvalidRequestError):
    """A search without words and without a vector."""


class InvalidLimitError(InvalidRequestError):
    """A limit outside its range."""


class InvalidFilterError(InvalidRequestError):
    """A filter that cannot be understood. ``field`` is the name of the field that it is about, where that is known."""

    field: str = ""


class UnknownFieldError(InvalidFilterError):
    """A filter names a field that no item of the collection has."""


class IncomparableValueError(UnknownFieldError):
    """A filter compares by order with a value of another type than the field's; no item has such a value there."""


class InvalidVectorError(InvalidRequestError):
    """A vector with NaN or infinity, a zero vector, or a value that is not a vector."""


class WrongDimensionError(InvalidVectorError):
    """A vector whose length is not that of the embedding space."""


class InvalidItemError(InvalidRequestError):
    """An item that cannot be stored. ``item_id`` is its key; None: the key itself is wrong."""

    def __init__(self, message: str, *, item_id: str | None = None) -> None:
        super().__init__(message)
        self.item_id = item_id


class InvalidProfileError(InvalidRequestError):
    """Legs, fusion or weights that do not make a profile."""


class BadLineError(InvalidRequestError):
    """A line of a file that holds no usable item. ``line`` counts from 1."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class NotFoundError(RetrievalError):
    """Something that the caller named does not exist."""


class UnknownCollectionError(NotFoundError):
    """The tenant has no collection of that name."""


class UnknownRetrievalError(NotFoundError):
    """The tenant has no recorded search of that identifier."""


class UnknownItemError(NotFoundError):
    """The collection has no such item, or, for feedback, the search did not show it."""


class UnknownKeyError(NotFoundError):
    """The tenant has no API key of that id."""


class ConflictError(RetrievalError):
    """The stored data differ from the caller's assumption."""


class VersionConflictError(ConflictError):
    """The item is not in the named version: another caller changed, created or removed it meanwhile."""

    def __init__(self, message: str, *, item_id: str) -> None:
        super().__init__(message)
        self.item_id = item_id


class EmbedderError(RetrievalError):
    """The embedder gave no usable vectors."""


class EmbedderUnavailableError(EmbedderError):
    """The embedder is down, slow or overloaded; the same call may work later."""


class EmbedderRejectedError(EmbedderError):
    """The embedder answered, and the answer is a refusal or not usable."""


class LLMError(RetrievalError):
    """The language model gave no usable answer."""


class LLMUnavailableError(LLMError):
    """The language model is down, slow or overloaded; the same call may work later."""


class LLMRejectedError(LLMError):
    """The language model answered, and the answer is a refusal or not usable."""


class RerankerError(RetrievalError):
    """The reranker gave no usable scores."""


class RerankerUnavailableError(RerankerError):
    """The reranker is down, slow or overloaded; the same call may work later."""


class RerankerRejectedError(RerankerError):
    """The reranker answered, and the answer is a refusal or not usable."""


class RunningLoopError(RetrievalError):
    """The sync door was used inside a running event loop; await the async API there."""
