"""The keys that an intent has for a lab, and what they say: clocks, impairments, kernels."""
