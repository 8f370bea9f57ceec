"""What is asked of a search, how it ranks, and what it gives back."""
