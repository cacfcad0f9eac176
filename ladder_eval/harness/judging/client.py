"""One judge behind an OpenAI-compatible server, asked until it answers or is given up."""

import email.utils
import json
import math
import random
import time
from collections.abc import Callable
from threading import Event
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from ladder_eval.errors import LadderEvalError
from ladder_eval.harness.judging.prompts import Message
from ladder_eval.harness.judging.server import Server, endpoint
from ladder_eval.harness.judging.verdicts import UnusableError

__all__ = ["REQUEST", "GaveUpError", "JudgeClient", "JudgeError"]

REQUEST: Final = {"max_tokens": 1, "temperature": 1, "logprobs": True, "top_logprobs": 5}
"""AlpacaEval 2's parameters; the temperature is for drawing, and leaves log-probabilities alone."""

LONGEST_WAIT_S: Final = 60.0
LONGEST_RETRY_AFTER_S: Final = 600.0

_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Client errors that may go away; so may all of a server's (5xx)."""

_HOPELESS: Final = {
    401: "refused the key",
    403: "refused the key",
    404: "has no such address or model",
    402: "asks to be paid first",
}


class JudgeError(LadderEvalError):
    """A judge that will answer no request as things are."""


class GaveUpError(Exception):
    """One question without a verdict; the message says why."""


class JudgeClient:
    """Asks a judge, from several threads at once.

    Attributes:
        stopping: Set where nothing more should be asked; pauses end then.
    """

    def __init__(self, server: Server) -> None:
        """Prepare connections; nothing is sent yet.

        Raises:
            UsageError: As for `endpoint`.
        """
        self.stopping = Event()
        self._server = server
        self._address = endpoint(server.url)
        headers = {"Content-Type": "application/json"}
        if server.key:
            headers["Authorization"] = f"Bearer {server.key}"
        self._http = httpx2.Client(
            headers=headers, timeout=server.timeout_s, limits=httpx2.Limits(max_connections=None)
        )

    def ask(
        self,
        messages: list[Message],
        check: Callable[[object], object],
        wasted: Callable[[str, object], None],
    ) -> Any:
        """The first response that passes `check`.

        Args:
            messages: The question.
            check: Raises `UnusableError` for a response that is no verdict.
            wasted: Told of each failed request: why, and the response, if there was one.

        Raises:
            GaveUpError: If no attempt brought a verdict, or the server says that none will.
            JudgeError: If the server won't answer any question.
        """
        last = _PassingError("nothing was asked")
        for attempt in range(self._server.attempts):
            if self.stopping.is_set():
                raise GaveUpError("not asked, since too many before it had failed")
            try:
                return self._answer(messages, check)
            except _PassingError as error:
                last = error
            wasted(str(last), last.response)
            if attempt + 1 < self._server.attempts:
                self.stopping.wait(self._pause(attempt) if last.pause_s is None else last.pause_s)
        raise GaveUpError(f"{last}, after {self._server.attempts} requests")

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, messages: list[Message], check: Callable[[object], object]) -> object:
        """The response to one request, if it passes."""
        try:
            reply = self._http.post(self._address, content=self._body(messages))
        except httpx2.HTTPError as error:
            said = self._plain(str(error) or type(error).__name__)
            raise _PassingError(f"no answer ({said})") from error
        content = self._content(reply)
        self._require_success(reply, content)
        try:
            check(content)
        except UnusableError as error:
            raise _PassingError(str(error), response=content) from error
        return content

    def _body(self, messages: list[Message]) -> bytes:
        """In ASCII, since an output may hold half a character, which UTF-8 can't."""
        return json.dumps({"model": self._server.model, "messages": messages, **REQUEST}).encode()

    def _content(self, reply: httpx2.Response) -> object:
        """The body as JSON, without the key if the server repeats it; None if it isn't JSON."""
        try:
            return json.loads(self._plain(reply.text))
        except (ValueError, RecursionError):
            return None

    def _plain(self, text: str) -> str:
        return text.replace(self._server.key, "[key]") if self._server.key else text

    def _require_success(self, reply: httpx2.Response, content: object) -> None:
        """Sort a reply into success, what may pass, what concerns one question, and what all."""
        status = reply.status_code
        if status == 200:
            return
        if status in _HOPELESS or _out_of_money(content):
            raise JudgeError(self._hopeless(status))
        if status in _AGAIN or status >= 500:
            raise _PassingError(f"error {status}", _retry_after(reply.headers.get("retry-after")))
        raise GaveUpError(f"error {status}{_message(content)}")

    def _hopeless(self, status: int) -> str:
        said = _HOPELESS.get(status, "asks to be paid first")
        help_with = {
            401: f"set {self._server.key_name} to one that it takes",
            403: f"set {self._server.key_name} to one that it takes",
            404: "correct --judge-url or --judge-model",
        }.get(status, "add to its account, and run the same command again")
        return f"the judge at {self._server.url} {said} (error {status}); {help_with}."

    def _pause(self, attempt: int) -> float:
        """Exponential back-off with full jitter, so that threads don't come back all at once."""
        longest = min(LONGEST_WAIT_S, self._server.first_wait_s * 2**attempt)
        return random.uniform(0, longest)


class _PassingError(Exception):
    """A failure that may go away: the pause that the server asked for, and what it answered."""

    def __init__(self, reason: str, pause_s: float | None = None, response: object = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.response = response


def _out_of_money(content: object) -> bool:
    """OpenAI says 429 both for too many requests and for an account that is used up."""
    error = content.get("error") if isinstance(content, dict) else None
    return isinstance(error, dict) and error.get("code") == "insufficient_quota"


def _message(content: object) -> str:
    error = content.get("error") if isinstance(content, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    return f" ({' '.join(said.split())[:200]})" if isinstance(said, str) and said else ""


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which has seconds or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) else None
