"""tde-exporter: what encryption costs, whether it is on, and whether the standby keeps up."""

__version__ = "0.1.0"
