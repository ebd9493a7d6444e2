"""Oracle's errors as the statements of the stand-in raise them."""

from __future__ import annotations

TEXTS = {
    28: "your session has been killed",
    54: "resource busy and acquire with NOWAIT specified or timeout expired",
    900: "invalid SQL statement",
    904: "invalid identifier",
    942: "table or view does not exist",
    955: "name is already used by an existing object",
    959: "tablespace does not exist",
    600: "internal error code, arguments: [stand-in], [], [], [], [], [], [], [], [], [], [], []",
    1001: "invalid cursor",
    1008: "not all variables bound",
    1012: "not logged on",
    1013: "user requested cancel of current operation",
    1017: "invalid username/password; logon denied",
    1031: "insufficient privileges",
    1033: "ORACLE initialization or shutdown in progress",
    1034: "ORACLE not available",
    1089: "immediate shutdown or close in progress - no operations are permitted",
    1092: "ORACLE instance terminated. Disconnection forced",
    1219: "database or pluggable database not open: queries allowed on fixed tables or views only",
    1403: "no data found",
    1435: "user does not exist",
    2396: "exceeded maximum idle time, please connect again",
    3113: "end-of-file on communication channel",
    3120: "two-task conversion routine: integer overflow",
    3135: "connection lost contact",
    16000: "database or pluggable database open for read-only access",
    28000: "The account is locked.",
    28001: "the password has expired",
    28002: "the password will expire within 7 days",
    28361: "master key not yet set",
    28365: "wallet is not open",
    28374: "typed master key not found in wallet",
    65011: "Pluggable database does not exist.",
}


class OraError(Exception):
    """ORA-`code`; `position` counts characters of the statement from 0, as far as it is known."""

    def __init__(self, code: int, detail: str = "", position: int = 0) -> None:
        self.code, self.position = code, position
        self.text = TEXTS.get(code, "an error that the stand-in has no text for")
        if detail:
            self.text = f"{detail}: {self.text}" if code in (904, 942) else f"{self.text} {detail}"
        super().__init__(f"ORA-{code:05}: {self.text}")
