"""Language models: the role of `retrieval.domain.llm.LLM`, one provider a file."""
