"""The tools' parameters, described for the model that fills them in, with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST_PRINCIPLES = 50
MOST_TAGS = 20

Tag = Annotated[str, Field(min_length=1, max_length=100)]
PrincipleId = Annotated[str, Field(min_length=1, max_length=200, description="The id of a principle, as given in [].")]

Query = Annotated[
    str | None,
    Field(
        max_length=2000,
        description="What you are about to do or are stuck at, in plain words; without it, the best by record.",
    ),
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
    Field(description='Also give up to two principles with little or no record, marked "(exploring)".'),
]
Limit = Annotated[
    int, Field(ge=1, le=MOST_PRINCIPLES, description="How many principles to give, those to be tried out besides.")
]
WasHelpful = Annotated[bool, Field(description="Whether following the principle helped.")]
Note = Annotated[str | None, Field(max_length=1000, description="Briefly why: what it was used for, what came of it.")]
Title = Annotated[
    str, Field(min_length=1, max_length=200, description="The principle in one sentence, as an instruction.")
]
Body = Annotated[
    str | None,
    Field(max_length=5000, description="When it applies, why it holds, and how to follow it."),
]
NewTags = Annotated[
    list[Tag] | None, Field(max_length=MOST_TAGS, description="What it is about; prefer tags that list_tags names.")
]
SessionId = Annotated[
    str, Field(min_length=1, max_length=200, description="The id of the session, as it was told when it started.")
]
