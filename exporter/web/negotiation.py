"""Which form of the page a client wants, by its headers `Accept` and `Accept-Encoding` (RFC 9110, 12.4 and 12.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_Q_VALUE = re.compile(r"0(?:\.\d{0,3})?|1(?:\.0{0,3})?")
_OPENMETRICS_VERSIONS = frozenset({"", "1.0.0", "0.0.1"})
_TEXT_VERSIONS = frozenset({"", "0.0.4", "1.0.0"})


def wants_openmetrics(accept: str) -> bool:
    """True when OpenMetrics is asked for by name, in a version we speak, and at least as dearly as plain text.

    Everything that is unknown, malformed or a wildcard means text: it is what any client can read.
    """
    openmetrics, text, text_rank = 0.0, 0.0, 0
    for name, parameters, q in _ranges(accept):
        version = parameters.get("version", "")
        if name == "application/openmetrics-text" and version in _OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, q)
        rank = {"text/plain": 3, "text/*": 2, "*/*": 1}.get(name, 0)
        if rank == 3 and version not in _TEXT_VERSIONS:
            continue
        # The more specific range decides, whatever its weight; equals take the larger weight.
        if rank and rank >= text_rank:
            text = max(text, q) if rank == text_rank else q
            text_rank = rank
    return openmetrics > 0 and openmetrics >= text


def accepts_gzip(accept_encoding: str) -> bool:
    """True when gzip is acceptable, and not less so than no compression."""
    weights: dict[str, float] = {}
    for name, _, q in _ranges(accept_encoding):
        name = "gzip" if name == "x-gzip" else name
        weights[name] = max(q, weights.get(name, 0.0))
    gzip = weights.get("gzip", weights.get("*", 0.0))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _ranges(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """The elements of a list header as (lower-case name, other parameters, q); malformed weights drop the element."""
    for element in header.split(","):
        name, *rest = (part.strip() for part in element.split(";"))
        if not name:
            continue
        parameters: dict[str, str] = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        weight = parameters.pop("q", "1")
        if _Q_VALUE.fullmatch(weight):
            yield name.lower(), parameters, float(weight)
