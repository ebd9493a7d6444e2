"""Pages for people: self-contained HTML, rendered from frozen values."""
