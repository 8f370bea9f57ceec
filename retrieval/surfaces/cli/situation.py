"""The situation of a search, as options: who asks, and what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from retrieval.domain.context import Context

Actor = Annotated[str, typer.Option("--actor", metavar="NAME", help="Who asks.", show_default=False)]
Session = Annotated[
    str, typer.Option("--session", metavar="NAME", help="What belongs together: a conversation, a run.")
]
Domain = Annotated[str, typer.Option("--domain", metavar="NAME", help="What the question is about, in a word.")]
Complexity = Annotated[float | None, typer.Option("--complexity", metavar="C", help="How hard the problem is, 0 to 1.")]
Backtracks = Annotated[
    int, typer.Option("--backtracks", metavar="N", help="How often the same problem was asked about before.")
]
Generated = Annotated[
    bool, typer.Option("--generated", help="Say that a model made candidates for this problem already.")
]


def situation(**given: Any) -> Context:
    """The same for the platform. Raises ``InvalidRequestError``."""
    from retrieval.domain.context import Context

    return Context(**given)
