"""The engine of MySQL and Percona Server."""
