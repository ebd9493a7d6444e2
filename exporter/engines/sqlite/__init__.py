"""The embedded default: SQLite with page encryption, no server needed."""
