"""Which kinds of interaction help with a kind of task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from retrieval.domain.errors import InvalidRequestError

_PROTOCOLS = ("protocols", "protocol")
_PLANS = ("plans", "plan")
_EXPERIMENTS = ("experiments", "experiment")

RELATED_TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "insights": ("insights", "summary", "triage"),
        "summary": ("summary", "insights", *_PLANS),
        "triage": ("triage", "insights", "summary"),
        "protocols": (*_PROTOCOLS, *_PLANS, "triage"),
        "plans": (*_PLANS, *_EXPERIMENTS, *_PROTOCOLS, "insights"),
        "experiments": (*_EXPERIMENTS, *_PLANS, *_PROTOCOLS, "insights"),
    }
)
"""What is worth reading before a task, its own kind first.

Insights build on what was found, summed up and sorted out before; a summary on earlier ones, what was found and what is
planned; sorting out on how it was done before and why; a protocol on protocols, the plans that use them and the papers
that were sorted out; a plan on plans, experiments, the protocols at hand and what was found; an experiment on the same.
"""

_OTHER_NAMES = MappingProxyType({name: names[0] for names in (_PROTOCOLS, _PLANS, _EXPERIMENTS) for name in names})


def related_types(task_type: str) -> tuple[str, ...]:
    """The interaction types of memories that help with a task, its own first; of an unknown task, its own type alone.

    Case and the spaces around the name do not matter. Raises ``InvalidRequestError`` for an empty name.
    """
    if not isinstance(task_type, str) or not task_type.strip():
        raise InvalidRequestError(f"task_type is {task_type!r:.80}; name a kind of task such as 'insights'")
    name = task_type.strip().casefold()
    return RELATED_TYPES.get(_OTHER_NAMES.get(name, name), (task_type.strip(),))
