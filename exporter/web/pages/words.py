"""The words of a verdict, the same everywhere, and what each of them means."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.overhead.words import Word


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict for people: `tone` chooses colour and mark, which only repeat what the words say."""

    words: str
    tone: str
    meaning: str


VERDICTS: dict[str, Verdict] = {
    Word.OVER_BUDGET: Verdict("over budget", "bad", "the evidence says that the budget is exceeded"),
    Word.WITHIN_BUDGET: Verdict("within budget", "good", "the whole interval lies below the budget"),
    Word.UNDECIDED: Verdict(
        "undecided", "open", "the interval reaches over the budget, and the evidence is not enough"
    ),
    Word.WARMING: Verdict("warming", "open", "not yet measured for an hour, which a verdict takes"),
    Word.NO_DATA: Verdict("no data", "mute", "no samples arrive"),
    Word.HELD: Verdict("held", "mute", "not judged now: an outage, or shortly after an event"),
    Word.BLIND: Verdict(
        "blind",
        "mute",
        "nothing passed the cipher on the encrypted side, so its overhead says nothing about encryption",
    ),
    Word.CERTIFYING: Verdict("certifying", "open", "both twins are still plain; they are being shown to be alike"),
}
"""By word, in the order in which people want to read them."""

MARKS = {"good": "✓", "bad": "▲", "open": "○", "mute": "–"}


def verdict(word: str) -> Verdict:
    """The verdict behind a word; an unknown word stands for itself."""
    return VERDICTS.get(word) or Verdict(word.replace("_", " "), "mute", "")
