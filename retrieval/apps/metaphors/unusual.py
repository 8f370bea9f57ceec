"""Whether a problem comes from a domain that nothing is known of."""

from __future__ import annotations

from retrieval.apps.metaphors.metaphor_item import IN_CORPUS
from retrieval.apps.metaphors.triggers import KNOWN_FROM_VERDICTS, is_unusual
from retrieval.collection import Collection


async def unusual_domain(collection: Collection, domain: str) -> str:
    """The domain, if it is unusual; empty where it is not, or none is stated."""
    if not domain:
        return ""
    verdicts = await collection.count_verdicts()
    if verdicts < KNOWN_FROM_VERDICTS:
        return ""
    known = await collection.value_counts("domain", where=IN_CORPUS)
    told = is_unusual(
        verdicts=verdicts,
        verdicts_of_domain=await collection.count_verdicts(domain=domain),
        is_a_metaphors_domain=domain in {one.value for one in known},
    )
    return domain if told else ""
