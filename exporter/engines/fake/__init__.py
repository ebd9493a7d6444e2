"""A scripted engine for tests and demonstrations; shipped so that nobody needs to patch a driver."""
