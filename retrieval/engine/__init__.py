"""One search, told in the order it happens: plan, candidates, fuse, explain."""
