"""Collections and their items: written, found by filters, listed, removed."""
