"""Scrapes for a process that has much else to do, whose other threads would be counted as time of the answer.

    python scraper.py

answers each line, a port, with a line: the seconds that the scrape took, what is wrong with it (or nothing), the metrics.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scraper:
    """The process that scrapes, seen from the one that asks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def scrape(self, port: int) -> tuple[float, str, str]:
        """The seconds it took, the words of what went wrong, the metrics."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{port}\n".encode())
        self._process.stdin.flush()
        seconds, words, text = json.loads(self._process.stdout.readline())
        return float(seconds), str(words), str(text)

    def close(self) -> None:
        self._process.communicate(timeout=30)


def scraped(port: int) -> tuple[float, str, str]:
    """One scrape, over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20.0)
    text, words, begun = "", "", time.monotonic()
    try:
        connection.request("GET", "/metrics", headers={"Accept": OPENMETRICS})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        words = repr(error)
    else:
        text = body.decode()
        words = "" if answer.status == 200 else f"status {answer.status}: {text[:100]}"
    finally:
        connection.close()
    return time.monotonic() - begun, words, text


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(scraped(int(line))), flush=True)
