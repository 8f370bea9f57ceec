"""How the service is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Live(BaseModel):
    """That the process lives."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "alive"}]})

    status: Literal["alive"]


class Checks(BaseModel):
    """How each part is: ``ok``, or what is wrong with it."""

    database: str
    schema_: str = Field(alias="schema")
    pool: str
    embedder: str
    language_model: str


class Ready(BaseModel):
    """Whether requests can be answered, and how each part is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "ready",
                    "checks": {
                        "database": "ok",
                        "schema": "ok",
                        "pool": "ok",
                        "embedder": "ok",
                        "language_model": "none",
                    },
                }
            ]
        }
    )

    status: Literal["ready", "degraded", "not ready"]
    checks: Checks
