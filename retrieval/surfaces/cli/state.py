"""The options that stand before the command, for every command to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from retrieval.settings import Settings


@dataclass(slots=True)
class State:
    """The global options of one run of the program."""

    debug: bool = False
    tenant: str | None = None

    def settings(self) -> Settings:
        """The settings of the environment, with what was asked for on the command line.

        Raises pydantic's ``ValidationError`` for values that cannot work.
        """
        from retrieval.settings import Settings

        settings = Settings()
        return settings if self.tenant is None else settings.changed(tenant=self.tenant)


def state_of(context: typer.Context) -> State:
    """The global options that this command was called with."""
    return context.ensure_object(State)
