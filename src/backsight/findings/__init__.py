"""`Finding`: one thing that a room has to say to the user, as data that prints itself well.

Offered to other rooms: `evidence`, `printing.data`, `printing.excerpt`, `printing.page`, `printing.terminal`.
"""

from backsight.findings.finding import SEVERITIES, Finding, Severity, graver_or_equal, plain_text

__all__ = ["SEVERITIES", "Finding", "Severity", "graver_or_equal", "plain_text"]
