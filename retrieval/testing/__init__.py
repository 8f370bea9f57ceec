"""Conformance suites: the contract of a role, checked on any implementation.

A function for each role, for use in tests::

    async def test_my_embedder_keeps_the_contract():
        await check_embedder(lambda: MyEmbedder())

A suite raises ``ConformanceError`` with the name of the first check that fails. A further role adds its
checks in its own file, under a ``Suite``, and a ``check_<role>`` function.
"""

from __future__ import annotations

from retrieval.testing.embedders import check_embedder
from retrieval.testing.llms import check_llm, check_unreachable_llm
from retrieval.testing.policies import check_policy
from retrieval.testing.rerankers import check_reranker, check_unreachable_reranker
from retrieval.testing.suite import ConformanceError

__all__ = [
    "ConformanceError", "check_embedder", "check_llm", "check_policy", "check_reranker", "check_unreachable_llm",
    "check_unreachable_reranker",
]  # fmt: skip
