"""The words that everyone speaks; imports nothing else of this package."""
