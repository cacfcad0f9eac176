"""Where a judge is, and the key that it is asked with."""

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from ladder_eval.errors import UsageError

__all__ = ["KEY_NAME", "Server", "api_key", "endpoint"]

KEY_NAME: Final = "OPENAI_API_KEY"
"""The environment variable that a key is taken from unless another is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """Where a judge is, and how patiently it is asked.

    Attributes:
        url: Base of the server's addresses, such as https://api.openai.com/v1.
        model: The judge's name there.
        key: Secret that is sent along, if any; never written anywhere.
        key_name: The environment variable that it is from.
        timeout_s: Seconds to wait for a connection, and for each part of an answer.
        attempts: Requests for one question before it is given up.
        first_wait_s: Longest pause after the first failure; it doubles from one to the next.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    key_name: str = KEY_NAME
    timeout_s: float = 60
    attempts: int = 6
    first_wait_s: float = 1


def api_key(name: str) -> str | None:
    """The key in an environment variable; None without one, as local servers take it.

    Raises:
        UsageError: If it can't be sent, such as one of several lines.
    """
    key = os.environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{name} holds more than a key; set it to one line of plain characters.")
    return key or None


def endpoint(url: str) -> str:
    """The address for chat completions below a base address.

    Raises:
        UsageError: If it is no http address, or holds a user name or a query, where secrets stand.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url} is no address; write one such as https://api.openai.com/v1.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError("--judge-url takes no user, query or #; a key belongs in the environment.")
    base = url.rstrip("/").removesuffix("/chat/completions")
    return f"{base}/chat/completions"
