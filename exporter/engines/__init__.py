"""The only place that knows a monitored database: drivers and SQL, one folder per engine."""
