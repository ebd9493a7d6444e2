"""The releases that the stand-in can be: what each tells about itself, and how it speaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """One release.

    Attributes:
        release: 12 (12.2), 19, 21 or 23; columns and views know since which they exist.
        version: Five numbers.
        field_version: Of TTC, which decides the fields of its messages.
        protocol_version: Of TNS, as in ACCEPT.
        banner: As V$VERSION has it.
        algorithm: What a tablespace is encrypted with when nothing is said.
    """

    release: int
    version: tuple[int, int, int, int, int]
    field_version: int
    protocol_version: int
    banner: str
    algorithm: str = "AES128"

    @property
    def number(self) -> int:
        """The version as the client is told; the layout changed with release 18."""
        major, minor, a, b, c = self.version
        if self.field_version >= 11:
            return major << 24 | minor << 16 | a << 12 | b << 4 | c
        return major << 24 | minor << 20 | a << 12 | b << 8 | c

    @property
    def full(self) -> str:
        return ".".join(map(str, self.version))


PROFILES = {
    "12.2": Profile(
        12,
        (12, 2, 0, 1, 0),
        8,
        315,
        "Oracle Database 12c Enterprise Edition Release 12.2.0.1.0 - 64bit Production",
    ),
    "19": Profile(
        19,
        (19, 24, 0, 0, 0),
        12,
        318,
        "Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production",
    ),
    "21": Profile(
        21,
        (21, 3, 0, 0, 0),
        16,
        318,
        "Oracle Database 21c Enterprise Edition Release 21.0.0.0.0 - Production",
    ),
    "23ai": Profile(
        23,
        (23, 6, 0, 24, 10),
        24,
        319,
        "Oracle Database 23ai Enterprise Edition Release 23.0.0.0.0 - for Oracle Cloud and Engineered Systems",
        "AES256",
    ),
}
