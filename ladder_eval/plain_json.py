"""JSON that others wrote: whatever is wrong with it is a ValueError."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text holds.

    Raises:
        ValueError: if it is no JSON, is nested deeper than Python reads, or has half a character
            in it, which could be written to no file again.
    """
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value
