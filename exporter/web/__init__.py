"""How people and Prometheus reach it."""
