"""The tools' parameters, described for the model that fills them in, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from retrieval.domain.item import MAX_KEY_BYTES
from retrieval.domain.stored_text import text_fault

MOST_PRINCIPLES = 50
MOST_TAGS = 20


def _asked(text: str | None) -> str | None:
    if text is not None and "\x00" in text:
        raise PydanticCustomError("nul", "holds a NUL character; leave it out")
    return text


def _line(text: str) -> str:
    return _storable(text, is_line=True)


def _block(text: str | None) -> str | None:
    return None if text is None else _storable(text, is_line=False)


def _storable(text: str, *, is_line: bool) -> str:
    if fault := text_fault(text, is_line=is_line):
        raise PydanticCustomError("characters", "holds {fault}, which cannot be stored; leave it out", {"fault": fault})
    return text


def _key(text: str) -> str:
    if len(text.encode(errors="replace")) > MAX_KEY_BYTES:
        raise PydanticCustomError("key", "has more bytes than an id can have; give one as shown in []")
    return text


# Refused here, a text is named as the tool names it; last, for bounds that stand behind a function speak of no text.
ASKED, LINE, BLOCK = AfterValidator(_asked), AfterValidator(_line), AfterValidator(_block)
AskedTag = Annotated[str, Field(min_length=1, max_length=100), ASKED]
Tag = Annotated[str, Field(min_length=1, max_length=100), LINE]
PrincipleId = Annotated[
    str,
    Field(min_length=1, max_length=MAX_KEY_BYTES, description="The id of a principle, as given in []."),
    ASKED,
    AfterValidator(_key),
]

Query = Annotated[
    str | None,
    Field(
        max_length=2000,
        description="What you are about to do or are stuck at, in plain words; without it, the best by record.",
    ),
    ASKED,
]
SearchedTags = Annotated[
    list[AskedTag] | None,
    Field(
        max_length=MOST_TAGS,
        description="Only principles with at least one of these tags; more of them in common rank higher.",
    ),
]
IncludeExploration = Annotated[
    bool,
    Field(strict=True, description='Also give up to two principles with little or no record, marked "(exploring)".'),
]
Limit = Annotated[
    int,
    Field(
        strict=True, ge=1, le=MOST_PRINCIPLES, description="How many principles to give, those to be tried out besides."
    ),
]
WasHelpful = Annotated[bool, Field(strict=True, description="Whether following the principle helped.")]
Note = Annotated[
    str | None, Field(max_length=1000, description="Briefly why: what it was used for, what came of it."), BLOCK
]
Title = Annotated[
    str, Field(min_length=1, max_length=200, description="The principle in one sentence, as an instruction."), LINE
]
Body = Annotated[
    str | None, Field(max_length=5000, description="When it applies, why it holds, and how to follow it."), BLOCK
]
NewTags = Annotated[
    list[Tag] | None, Field(max_length=MOST_TAGS, description="What it is about; prefer tags that list_tags names.")
]
SessionId = Annotated[
    str,
    Field(min_length=1, max_length=200, description="The id of the session, as it was told when it started."),
    ASKED,
]
OwnSession = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="The id of your session, if you were told one; without it, the connection's, or this machine's.",
    ),
    ASKED,
]
