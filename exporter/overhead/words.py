"""One word for the state of a series, the same in metrics, reports and pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from exporter.overhead.ratio import Ratio

DEFAULT_THRESHOLD = 1.2
"""The ratio encrypted / plain from which the cost of encryption is a matter for a ticket."""


class Word(StrEnum):
    """The closed vocabulary.

    `over_budget` and `held` are spoken by the sequential detector, which knows more than one window.
    """

    WARMING = "warming"
    WITHIN_BUDGET = "within_budget"
    UNDECIDED = "undecided"
    OVER_BUDGET = "over_budget"
    NO_DATA = "no_data"
    HELD = "held"
    BLIND = "blind"
    CERTIFYING = "certifying"


def is_blind(ciphered: Collection[float | None]) -> bool | None:
    """Whether nothing went through the cipher; `ciphered` are numbers of decrypts and encrypts, None is unknown."""
    if any(ciphered):
        return False
    return None if None in ciphered else True


def word_of_window(
    *,
    certifying: bool,
    samples: int,
    blind: bool | None,
    ratios: Mapping[int, Ratio],
    threshold: float = DEFAULT_THRESHOLD,
) -> Word:
    """What one window says about the budget; `ratios` holds the latency ratios by percentile.

    In this order: a pair that is being certified has no verdict; nothing measured; nothing went
    through the cipher, so whatever the ratio is, it is not the cost of encryption; not enough for
    any interval; every published percentile is below `threshold` even at its upper bound; anything
    else is undecided. An unknown upper bound is never "within budget".
    """
    if certifying:
        return Word.CERTIFYING
    if samples == 0:
        return Word.NO_DATA
    if blind:
        return Word.BLIND
    if not ratios:
        return Word.WARMING
    if all(ratio.upper is not None and ratio.upper < threshold for ratio in ratios.values()):
        return Word.WITHIN_BUDGET
    return Word.UNDECIDED
