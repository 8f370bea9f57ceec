"""What an examination of an installation reads: facts, in few statements; what they mean is said by ``jobs.doctor``."""
