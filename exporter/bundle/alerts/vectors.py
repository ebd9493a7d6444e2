"""Parts of expressions that many rules share."""

from __future__ import annotations

DROPPED = "instance, pod"
"""Labels that change when the exporter is started elsewhere; alerts about databases must not change with them."""

OF_TARGET = "job, target"
OF_PAIR = "job, target, pair"
OF_OPERATION = "job, target, pair, operation"


def newest(selector: str, also: str = "") -> str:
    """The highest of what several instances of the exporter say (one of them may be on its way out)."""
    labels = f"{DROPPED}, {also}" if also else DROPPED
    return f"max without ({labels}) ({selector})"
