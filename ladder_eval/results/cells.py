"""Cells of CSV files that stay what they are in whatever opens them."""

import re
from typing import Final

__all__ = ["as_data"]

# OWASP's list (CSV Injection), and their full-width forms.
_STARTS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

# Numbers, dates and times; three or more numbers with dots between them are a version.
_READS_AS_NUMBER: Final = re.compile(r"\s*(?!\d+(?:\.\d+){2,}\s*$)\.?\d[\d.,:/ eE%+-]*")

# What pandas (read_csv, na_values) or a spreadsheet reads as missing, true or infinite.
_READS_AS_VALUE: Final = frozenset(
    ("na", "n/a", "#n/a", "#na", "<na>", "null", "nan", "none", "true", "false", "inf", "infinity")
)


def as_data(cell: object) -> object:
    """A cell that a spreadsheet or pandas opens as what it is: text stays text.

    A spreadsheet runs text that starts with =, +, -, @, a tab or a line break as a formula, and
    both read text such as 007, 2025-01-31 or NA as a value; an apostrophe before it keeps it text.
    Whatever isn't text stays as it is.
    """
    return f"'{cell}" if isinstance(cell, str) and _is_mistaken(cell) else cell


def _is_mistaken(text: str) -> bool:
    return (
        text.startswith(_STARTS_A_FORMULA)
        or _READS_AS_NUMBER.fullmatch(text) is not None
        or (text.casefold() in _READS_AS_VALUE and text != "none")
    )
