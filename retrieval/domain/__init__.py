"""The pure core: values, filters, fusion, errors. No I/O, no clock, no randomness of its own."""
