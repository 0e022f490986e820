"""Networks that `cnc serve` owns, with CUCs that ask over TLS: for tests and measurements."""
