"""One search in the order of its steps: plan, candidates, fusion, explanation."""
