"""How Prometheus sees it; the only room that imports prometheus_client."""
