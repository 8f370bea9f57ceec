"""Embedders: the role of `retrieval.domain.embedding.Embedder`, one provider a file."""
