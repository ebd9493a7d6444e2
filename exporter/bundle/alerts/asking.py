"""Parts of annotation templates: numbers in words, looked up when the alert is sent."""

from __future__ import annotations

from collections.abc import Iterable

PERCENT = "{{ $value | humanizePercentage }}"
SECONDS = "{{ $value | humanizeDuration }}"
COUNT = '{{ printf "%.0f" $value }}'

OPERATION = ("job", "target", "pair", "operation")


def asked(metric: str, labels: Iterable[str], fixed: str, then: str, otherwise: str = "") -> str:
    """`then` about the first sample of `metric` with the alert's own `labels` and the matchers in `fixed`.

    `{}` in `then` is its value, to be piped on; without such a sample `otherwise` is said.
    """
    names = tuple(labels)
    own = ",".join(f"{name}=%q" for name in names)
    of = ",".join(part for part in (own, fixed.replace('"', '\\"')) if part)
    given = " ".join(f"$labels.{name}" for name in names)
    said = then.replace("{}", ". | first | value")
    return f'{{{{ with printf "{metric}{{{of}}}" {given} | query }}}}{said}{{{{ else }}}}{otherwise}{{{{ end }}}}'


def listed(metric: str, labels: Iterable[str], label: str, comparison: str) -> str:
    """The values of `label` of all samples of `metric` for which `comparison` holds, separated by blanks."""
    names = tuple(labels)
    own = ",".join(f"{name}=%q" for name in names)
    given = " ".join(f"$labels.{name}" for name in names)
    query = f'printf "{metric}{{{own}}} {comparison}" {given} | query | sortByLabel "{label}"'
    return (
        f"{{{{ range $i, $one := {query} }}}}{{{{ if $i }}}}, {{{{ end }}}}{{{{ $one.Labels.{label} }}}}{{{{ end }}}}"
    )


def ratio_in_words(metric: str = "tde_overhead_ratio") -> str:
    """The ratio of the last hour with both bounds; for alerts with the labels of an operation and a percentile."""
    labels = (*OPERATION, "percentile")
    window = 'window="1h"'
    number = '{{ printf "%.2f" ({}) }}'
    upper = asked(f"{metric}_upper", labels, window, number, "an unknown bound")
    interval = asked(
        f"{metric}_lower", labels, window, f" (95 % interval {number} to {upper})", " (its interval is not known)"
    )
    return asked(metric, labels, window, f"{number} times{interval} in the last hour", "how much is not known just now")
