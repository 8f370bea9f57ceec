"""Five services of a research assistant with a memory: each reads a context, asks a model, and stores the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrieval import Platform, connect
from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.memories import MemoryStore, RetrievalEngine
from retrieval.domain.llm import LLM, TEXT_SCHEMA, list_schema, object_schema

TEXTS = list_schema(TEXT_SCHEMA)
FINDINGS = object_schema(findings=TEXTS, next_steps=TEXTS)
STEPS = object_schema(steps=TEXTS)
TEXT = object_schema(text=TEXT_SCHEMA)
VERDICT = object_schema(relevant={"type": "boolean"}, reason=TEXT_SCHEMA)


@dataclass(frozen=True)
class Service:
    """The task of one service, and the shape of its answer."""

    task_type: str
    instruction: str
    schema: Mapping[str, Any]


SERVICES = (
    Service("triage", "Is this paper relevant to the question? Judge as you did before.", VERDICT),
    Service("insights", "What follows from the project's data?", FINDINGS),
    Service("protocols", "Extract the protocol, and compare it with earlier ones.", STEPS),
    Service("plans", "Plan the next experiment; learn from earlier plans.", STEPS),
    Service("summary", "Sum the project up, going on from earlier summaries.", TEXT),
)


@dataclass(frozen=True)
class Assistant:
    """Runs services for a project, and stores their answers as memories."""

    platform: Platform
    llm: LLM
    user_id: str = "ann"
    entities: Mapping[str, Sequence[str]] = field(default_factory=dict)

    async def run(self, service: Service, project_id: str, data: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the service's context and its answer, and store the answer as a memory."""
        context = await RetrievalEngine(self.platform).retrieve_context_for_task(
            project_id, service.task_type, self.entities, limit=5, max_tokens=1500
        )
        prompt = f"{context}\n\n## Task\n{service.instruction}\n\n## Data\n{json.dumps(data, indent=2)}"
        answer = await self.llm.complete_json(prompt, service.schema, system="You assist a research project.")
        await MemoryStore(self.platform).store_memory(
            project_id,
            service.task_type,
            answer,
            self.user_id,
            links=self.entities,
            summary=f"{service.task_type} for {data['question']}",
        )
        return context, answer


async def main() -> None:
    """Run each service twice: the second time it reads the first answer."""
    data = {"question": "Does heat shock help folding?", "paper": "Chaperones of yeast", "yield": [0.2, 0.4]}
    async with connect(tenant="research-assistant") as platform:
        await MemoryStore(platform).forget_project("proj-123")
        assistant = Assistant(platform, platform.llm or SimLLM(), entities={"questions": ["q1"], "papers": ["p7"]})
        for service in SERVICES * 2:
            context, answer = await assistant.run(service, "proj-123", data)
            print(f"{service.task_type}: {context.splitlines()[0].removeprefix('## ')}")
            print("  ", json.dumps(answer)[:100])
        print(await RetrievalEngine(platform).retrieve_context_for_task("proj-123", "plans", max_characters=600))


if __name__ == "__main__":
    asyncio.run(main())
