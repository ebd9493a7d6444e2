"""Who may connect and ask: TLS, passwords, limits, as the web configuration file says, re-read when it changes."""
