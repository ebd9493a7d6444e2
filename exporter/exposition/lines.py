"""Families as text, in both formats at once.

The formats differ in what stands above the samples, and the client library writes that. The lines of samples are the same
in both, and most of a page: the library would write each of them twice, and look at every letter of its labels four times.
With the names of the catalogue, which are legal, that is not needed; it was two thirds of a rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import exposition as text_format
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_format
from prometheus_client.utils import floatToGoString

OWN = "tde_"
"""How the names of the catalogue begin; other families come from collectors of the client library, which knows them best."""
_END = b"# EOF\n"


def both_formats(families: Sequence[Metric]) -> tuple[bytes, bytes]:
    """The page as plain text and as OpenMetrics; raises what the client library raises."""
    pairs: dict[tuple[str, str], str] = {}
    text: list[bytes] = []
    modern: list[bytes] = []
    for family in families:
        own = family.name.startswith(OWN)
        shown = Metric(family.name, family.documentation, family.type, family.unit) if own else family
        text.append(text_format.generate_latest(_One(shown)))
        modern.append(openmetrics_format.generate_latest(_One(shown)).removesuffix(_END))  # type: ignore[no-untyped-call]
        if own:
            lines = _lines(family, pairs)
            text.append(lines)
            modern.append(lines)
    return b"".join(text), b"".join([*modern, _END])


class _One:
    """A collector of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


def _lines(family: Metric, pairs: dict[tuple[str, str], str]) -> bytes:
    """The samples of a family; `pairs` keeps labels with their values as they are written."""
    lines = []
    for sample in family.samples:
        words = []
        for item in sorted(sample.labels.items()):
            word = pairs.get(item)
            if word is None:
                word = pairs[item] = f'{item[0]}="{_escaped(item[1])}"'
            words.append(word)
        labels = f"{{{','.join(words)}}}" if words else ""
        value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
        lines.append(f"{sample.name}{labels} {value}\n")
    return "".join(lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
