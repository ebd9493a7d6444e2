"""Where the dashboards and alert rules are that come with this package."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def data_directory(kind: str) -> Path:
    """The folder of `kind`, `dashboards` or `alerts`.

    In an installed wheel it is inside the package; in a checkout, and so in an editable install, it is
    at the top level, where the generators write it.
    """
    packed = _HERE / "data" / kind
    return packed if packed.is_dir() else _HERE.parents[1] / kind
