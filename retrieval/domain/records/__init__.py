"""What was asked and shown, as it is kept and told."""
