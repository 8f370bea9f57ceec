"""Records of searches and answers, as they are stored and read."""
