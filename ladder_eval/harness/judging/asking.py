"""Asking a judge about many pairs at once, each answer on disk before its thread asks again."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self

import filelock

from ladder_eval.errors import RecordError
from ladder_eval.harness.judging.client import (
    REQUEST,
    GaveUpError,
    JudgeClient,
    JudgeError,
)
from ladder_eval.harness.judging.outputs import Pair
from ladder_eval.harness.judging.prompts import JudgePrompt, Message
from ladder_eval.harness.judging.server import Server
from ladder_eval.harness.judging.verdicts import preference
from ladder_eval.results.requests import RequestLog, request_key

__all__ = ["Question", "VerdictLogs", "ask_all", "questions"]

SUCCESSIVE_FAILURES: Final = 10
"""Questions given up one after another, after which a judge is asked nothing more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One pair as it is put to the judge.

    Attributes:
        key: Hash of all that determines the answer.
        pair: Instruction and outputs.
        model_first: Whether the model's output is shown first.
        messages: What is sent.
    """

    key: str
    pair: Pair
    model_first: bool
    messages: list[Message]


def questions(
    pairs: Sequence[Pair], prompt: JudgePrompt, server: Server, seed: int
) -> list[Question]:
    """The question of each pair; which output is first depends on seed and instruction alone."""
    return [_question(pair, prompt, server, seed) for pair in pairs]


class VerdictLogs:
    """What a judge has answered and what has failed, in a folder that one process holds.

    Attributes:
        answers: Responses that are verdicts, by the key of their question.
        failures: Failed requests with the reason, and the response where there was one.
    """

    def __init__(self, folder: Path) -> None:
        self.answers = RequestLog(folder / "answers.jsonl")
        self.failures = RequestLog(folder / "failures.jsonl")
        self._lock = Lock()

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[Self]:
        """Open the logs of a folder, which is made if need be.

        Raises:
            RecordError: If it can't be written, or another process holds it.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(folder / "judge.lock")
            lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise RecordError(
                f"another process is judging into {folder}; wait for it, or choose another --out."
            ) from error
        except OSError as error:
            raise RecordError(
                f"can't write to {folder} ({error.strerror or error}); choose another --out."
            ) from error
        try:
            logs = cls(folder)
            with logs.answers, logs.failures:
                yield logs
        finally:
            lock.release()

    def keep(self, key: str, response: Any) -> None:
        """Keep a verdict, and return when it is on disk."""
        with self._lock:
            self.answers.append({key: response})

    def note(self, key: str, reason: str, response: Any) -> None:
        """Keep why a request failed, and what it cost, beside the answers and never among them."""
        with self._lock:
            entry = f"{key} {len(self.failures)}"
            self.failures.append({entry: {"reason": reason, "response": response}})


def ask_all(
    asked: Sequence[Question],
    client: JudgeClient,
    logs: VerdictLogs,
    concurrency: int,
    advance: Callable[[], None],
) -> dict[str, str]:
    """Ask what has no answer yet; why each question without a verdict has none, by its key.

    A thread keeps its answer before it asks anything else, so that after a kill only the requests
    in flight are asked, and paid, again.

    Raises:
        JudgeError: If the judge refuses all questions.
        RecordError: If an answer can't be kept.
    """
    asker = _Asker(client, logs, advance)
    open_questions = [question for question in asked if question.key not in logs.answers]
    with ThreadPoolExecutor(concurrency) as pool:
        futures = {pool.submit(asker.ask, question): question.key for question in open_questions}
        try:
            reasons = {futures[done]: done.result() for done in as_completed(futures)}
        except BaseException:
            client.stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {key: reason for key, reason in reasons.items() if reason is not None}


class _Asker:
    """Asks one question a call, from several threads, until too many in a row are given up."""

    def __init__(self, client: JudgeClient, logs: VerdictLogs, advance: Callable[[], None]) -> None:
        self._client = client
        self._logs = logs
        self._advance = advance
        self._lock = Lock()
        self._successive = 0

    def ask(self, question: Question) -> str | None:
        """Ask, and keep the answer; why there is none, if there is none."""
        check = partial(preference, model_first=question.model_first)
        try:
            response = self._client.ask(
                question.messages, check, partial(self._logs.note, question.key)
            )
        except GaveUpError as error:
            self._count(failed=True)
            return str(error)
        except JudgeError:
            self._client.stopping.set()  # before other threads are told the same
            raise
        self._logs.keep(question.key, response)
        self._count(failed=False)
        self._advance()
        return None

    def _count(self, *, failed: bool) -> None:
        with self._lock:
            self._successive = self._successive + 1 if failed else 0
            if self._successive >= SUCCESSIVE_FAILURES:
                self._client.stopping.set()


def _question(pair: Pair, prompt: JudgePrompt, server: Server, seed: int) -> Question:
    drawn = hashlib.sha256(f"{seed}\n{pair.instruction}".encode(errors="surrogatepass")).digest()
    model_first = drawn[0] % 2 == 1
    both = (pair.output, pair.reference) if model_first else (pair.reference, pair.output)
    messages = prompt.fill(
        {"instruction": pair.instruction, "output_1": both[0], "output_2": both[1]}
    )
    sent = [text for message in messages for text in (message["role"], message["content"])]
    # Where the model's output is shown decides what a label means, which equal outputs don't tell.
    place = "model first" if model_first else "model second"
    settings = [f"{name}={value}" for name, value in REQUEST.items()]
    key = request_key(server.url, server.model, *settings, place, *sent)
    return Question(key=key, pair=pair, model_first=model_first, messages=messages)
