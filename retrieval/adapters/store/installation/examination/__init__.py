"""The facts that an examination of an installation reads, in few statements; ``services.doctor`` judges them."""
