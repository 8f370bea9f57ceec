"""Whether a problem comes from a domain that nothing is known of."""

from __future__ import annotations

from retrieval.apps.metaphors.metaphor_item import IN_CORPUS
from retrieval.apps.metaphors.triggers import KNOWN_FROM_VERDICTS, is_unusual
from retrieval.collection import Collection


async def unusual_domain(collection: Collection, domain: str) -> str:
    """The domain, if it is unusual; empty where it is not, or none is stated."""
    if not domain:
        return ""
    verdicts = await collection.count_verdicts(at_most=KNOWN_FROM_VERDICTS)
    if verdicts < KNOWN_FROM_VERDICTS or await _is_a_metaphors(collection, domain):
        return ""
    told = is_unusual(
        verdicts=verdicts,
        verdicts_of_domain=await collection.count_verdicts(domain=domain, at_most=1),
        is_a_metaphors_domain=False,
    )
    return domain if told else ""


async def _is_a_metaphors(collection: Collection, domain: str) -> bool:
    async for _ in collection.scan({**IN_CORPUS, "domain": domain}, batch=1):
        return True
    return False
