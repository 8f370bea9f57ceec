"""Embedders: the role of `retrieval.domain.items.embedding.Embedder`, one provider a file."""
