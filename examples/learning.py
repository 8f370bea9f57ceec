"""Search that improves by feedback: users judge the hits of sixty searches; a model is fitted, tried and used.

In production ``retrieval worker`` fits the model every hour; this example fits it at once.
"""

from __future__ import annotations

import asyncio

from retrieval import Collection, Context, Feedback, Platform, connect

TOPICS = ("invoice", "refund", "password", "delivery", "export")
ITEMS = [
    {
        "id": f"{topic}-{number}",
        "title": f"About the {topic}",
        "text": f"How to deal with the {topic}, version {number}",
    }
    for topic in TOPICS
    for number in range(6)
]


def helps(item_id: str) -> bool:
    """True if the guide helps, which only readers know: the later versions are the good ones."""
    return int(item_id.rpartition("-")[2]) >= 3


async def judge(platform: Platform, guides: Collection) -> None:
    """Run sixty searches, and give a verdict on each hit."""
    for number in range(60):
        topic, other = TOPICS[number % 5], TOPICS[(number + 1 + number // 5) % 5]
        hits = await guides.search(f"{topic} or {other} {number}", context=Context(domain="help desk"))
        await platform.feedback_each(
            [Feedback(retrieval_id=hits.retrieval_id, item_id=hit.id, helpful=helps(hit.id)) for hit in hits]
        )


async def learn(guides: Collection) -> None:
    """Fit a model; searches use it if it ranks better on questions that it was not fitted on."""
    report = await guides.learn()
    print("the model is used:" if report["published"] else "the model is not used:", report["reason"])


async def main() -> None:
    """Search, judge, learn, search again."""
    async with connect(tenant="learning") as platform:
        guides = await platform.collection("guides")
        await guides.add(ITEMS)
        for moment in ("before", "after"):
            hits = await guides.search("the invoice of a delivery", limit=4, context=Context(domain="help desk"))
            print(f"{moment}: {', '.join(hit.id for hit in hits)}")
            if moment == "before":
                await judge(platform, guides)
                await learn(guides)
        print(hits[0].explanation)


if __name__ == "__main__":
    asyncio.run(main())
