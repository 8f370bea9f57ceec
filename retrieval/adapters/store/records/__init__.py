"""Records: searches, runs of jobs, and figures about them."""
