"""The keys of an intent: their shapes and values, and what is wrong with them."""
