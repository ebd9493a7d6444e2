"""The engine of MariaDB."""
