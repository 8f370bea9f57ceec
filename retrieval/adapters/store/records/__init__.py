"""What happened: recorded searches, runs of jobs, and figures about them."""
