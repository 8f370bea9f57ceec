"""The tools' parameters, described for the model that fills them in, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from retrieval.domain.item import MAX_KEY_BYTES

MOST_PRINCIPLES = 50
MOST_TAGS = 20


def _storable(text: str | None) -> str | None:
    if text is not None and "\x00" in text:
        raise PydanticCustomError("nul", "holds a NUL character, which cannot be stored; leave it out")
    return text


def _key(text: str) -> str:
    if len(text.encode(errors="replace")) > MAX_KEY_BYTES:
        raise PydanticCustomError("key", "has more bytes than an id can have; give one as shown in []")
    return text


# Refused here, a text is named as the tool names it; last, for bounds that stand behind a function speak of no text.
STORABLE = AfterValidator(_storable)
Tag = Annotated[str, Field(min_length=1, max_length=100), STORABLE]
PrincipleId = Annotated[
    str,
    Field(min_length=1, max_length=MAX_KEY_BYTES, description="The id of a principle, as given in []."),
    STORABLE,
    AfterValidator(_key),
]

Query = Annotated[
    str | None,
    Field(
        max_length=2000,
        description="What you are about to do or are stuck at, in plain words; without it, the best by record.",
    ),
    STORABLE,
]
SearchedTags = Annotated[
    list[Tag] | None,
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
    str | None, Field(max_length=1000, description="Briefly why: what it was used for, what came of it."), STORABLE
]
Title = Annotated[
    str, Field(min_length=1, max_length=200, description="The principle in one sentence, as an instruction."), STORABLE
]
Body = Annotated[
    str | None, Field(max_length=5000, description="When it applies, why it holds, and how to follow it."), STORABLE
]
NewTags = Annotated[
    list[Tag] | None, Field(max_length=MOST_TAGS, description="What it is about; prefer tags that list_tags names.")
]
SessionId = Annotated[
    str,
    Field(min_length=1, max_length=200, description="The id of the session, as it was told when it started."),
    STORABLE,
]
OwnSession = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="The id of your session, if you were told one; without it, the connection's, or this machine's.",
    ),
    STORABLE,
]
