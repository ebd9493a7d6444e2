"""What MariaDB, MySQL and Percona Server share: their wire protocol, and what is written in SQL above it."""
