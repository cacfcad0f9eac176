"""The model that lm-eval talks to: text requests in, recorded answers out."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from transformers import PreTrainedTokenizerBase

from ladder_eval.engine.batching import Batch, ScoringRequest
from ladder_eval.engine.budget import LEAST_TOKENS, Budget
from ladder_eval.engine.generation import GenerationRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import LogLikelihood
from ladder_eval.errors import CheckpointError, ScoringError, UsageError
from ladder_eval.harness.answers import (
    AnswerBook,
    Engine,
    Generating,
    Progress,
    Scoring,
    Tally,
    TextRequest,
)
from ladder_eval.harness.chat import ChatTemplate
from ladder_eval.harness.encoding import Encoding, TextEncoder
from ladder_eval.harness.stopping import TextEnd, settings_of
from ladder_eval.results.requests import RequestLog, request_key

# Requests that are repeated at another tp_size.
SPOT_CHECKS = 32

# Requests that are planned together, while the texts of the next as many are encoded: enough to
# share what they begin with and to keep replicas busy.
_PLANNED_TOGETHER = 4096

# lm-eval's own default.
DEFAULT_MAX_GEN_TOKS = 256


class LadderLM(TemplateLM):  # type: ignore[misc]
    """A model of this package as lm-eval's language model.

    Args:
        identity: What makes this model's answers its own: weights, configuration, dtype.
        load: Loads the model, when the first request needs it.
        tokenizer: Its tokenizer; no padding token is needed.
        eos: Tokens that end a generated text.
        max_length: Longest text in tokens that the model can read.
        vocab_size: Number of tokens that the model knows.
        log: Where answers are recorded.
        batch_size: Most texts in one forward.
        progress: Who is told how far the computing has come.
        seed: Seed of what is drawn.
        max_gen_toks: Most tokens to generate where a task doesn't say.
        think_end_token: What closes a reasoning model's thoughts; empty where it has none.
        chat_template_args: More arguments of the tokenizer's chat template.
        batches: Where it is recorded what was computed together, and how long it was.
        budget: How many tokens a batch has; by default what is found now.
    """

    def __init__(
        self,
        *,
        identity: Sequence[str],
        load: Callable[[], Engine],
        tokenizer: PreTrainedTokenizerBase,
        eos: Sequence[int],
        max_length: int,
        vocab_size: int,
        log: RequestLog,
        batch_size: int,
        progress: Progress,
        seed: int = 0,
        max_gen_toks: int = DEFAULT_MAX_GEN_TOKS,
        think_end_token: str = "",
        chat_template_args: Mapping[str, Any] | None = None,
        batches: RequestLog | None = None,
        budget: Budget | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.max_gen_toks = max_gen_toks
        self._eos = tuple(eos)
        self._batch_size = batch_size
        self._budget = budget or Budget("")
        self._seed = seed
        self._think_end = think_end_token
        self._chat = ChatTemplate(tokenizer=tokenizer, arguments=dict(chat_template_args or {}))
        self._book = AnswerBook(
            identity=identity,
            load=load,
            log=log,
            progress=progress,
            vocab_size=vocab_size,
            decode=lambda ids: str(tokenizer.decode(list(ids))),
            batches=batches,
        )
        self._spot_checks: dict[str, ScoringRequest] = {}
        self._texts = TextEncoder(tokenizer)
        self._share = 1.0
        self._adds_bos = self._starts_with_bos(tokenizer.encode("text"))
        self._found_bos = False

    @property
    def tally(self) -> Tally:
        """What the model has been asked so far."""
        return self._book.tally

    @property
    def batch_tokens(self) -> tuple[int, ...]:
        """How many tokens batches have at most, as `Budget.settled`."""
        return self._budget.settled

    @property
    def bos_policy(self) -> str:
        """What was done about the beginning-of-sequence token, in words."""
        if self._found_bos:
            return "once, as the prompts have it"
        return "once, by the tokenizer" if self._adds_bos else "none: the tokenizer adds none"

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, as lm-eval asks for it."""
        return str(self.tokenizer.name_or_path)

    @property
    def eot_token_id(self) -> int:
        """The end-of-text token.

        Raises:
            CheckpointError: if the tokenizer names none.
        """
        if self.tokenizer.eos_token_id is None:
            raise CheckpointError(
                f"The tokenizer in {self.tokenizer_name} names no eos_token, which an empty prompt "
                "needs where there is no bos_token; add one to tokenizer_config.json."
            )
        return int(self.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        """The token that stands before a text without context: BOS, else the end-of-text token."""
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else int(bos)

    def spot_check(
        self,
        answer: Callable[[Sequence[Batch]], Iterable[tuple[Batch, dict[int, LogLikelihood]]]],
    ) -> float | None:
        """Largest difference of a few log-likelihoods from another computation's.

        Only of those that have been computed here; None if all were found in the log.
        """
        keys, requests = list(self._spot_checks), list(self._spot_checks.values())
        limits = BatchLimits(tokens=LEAST_TOKENS, rows=self._batch_size)
        differences = [
            abs(found.logprob - self._recorded(keys[index])[0])
            for _, answers in answer(plan(requests, limits))
            for index, found in answers.items()
        ]
        return max(differences, default=None)

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **_: Any
    ) -> list[int]:
        """Token ids of a text, with BOS once: as the text begins with it, or the tokenizer adds."""
        if add_special_tokens is None:
            add_special_tokens = self._needs_special_tokens(string)
            self._found_bos |= not add_special_tokens
        return self._texts.ids(string, add_special_tokens=add_special_tokens)

    def _needs_special_tokens(self, string: str) -> bool:
        bos = self.tokenizer.bos_token
        return not (bos and string.startswith(bos))

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The tokenizer's chat template.

        Raises:
            UsageError: if there is none, or it is asked for by a name.
        """
        if isinstance(chat_template, str):
            raise UsageError("Chat templates by name aren't offered; leave the name out.")
        return self._chat.source

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The prompt that a conversation is for this model.

        Raises:
            UsageError: if the template can't render it, such as without a system role.
        """
        return self._chat.render(chat_history, add_generation_prompt)

    def loglikelihood(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> list[tuple[float, bool]]:
        """Log-probability of each continuation given its context, and whether it is greedy."""
        pieces = [
            requests[at : at + _PLANNED_TOGETHER]
            for at in range(0, len(requests), _PLANNED_TOGETHER)
        ]
        answers = list[tuple[float, bool]]()
        for piece in self._texts.ahead(pieces, self._pairs):
            self._share = (len(answers) + len(piece)) / len(requests)
            answers += super().loglikelihood(piece, disable_tqdm=True)
        return answers

    def _pairs(self, requests: Iterable[Instance]) -> Iterator[Encoding]:
        """What lm-eval encodes of contexts and continuations, each where it splits them."""
        for context, continuation in (request.args for request in requests):
            for text in (context.rstrip(), context + continuation):
                if text:
                    yield text, bool(context) and self._needs_special_tokens(text)

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> list[float]:
        """Log-probability of each whole text, every token predicted once."""
        texts = [request.args[0] for request in requests]
        self._texts.expect((text, False) for text in texts)
        windows = [self._windows(text) for text in texts]
        answers = iter(self._answers([window for text in windows for window in text]))
        return [sum(next(answers)[0] for _ in text) for text in windows]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """What follows each prompt, up to the first of its `until`, EOS or `max_gen_toks`.

        The same prompt asked for several times is drawn anew each time, if it is drawn at all.

        Raises:
            UsageError: if a task's `generation_kwargs` can't be used.
            ScoringError: if a prompt leaves no room for what is to be generated.
        """
        prompts = [request.args[0] for request in requests]
        self._texts.expect((each, self._needs_special_tokens(each)) for each in prompts)
        repeats: Counter[tuple[Any, ...]] = Counter()
        texts = [self._text_request(request.args, repeats) for request in requests]
        keys = [self._text_key(text) for text in texts]
        self._book.complete(dict(zip(keys, texts, strict=True)), Generating(self._batch_size))
        answers = [cast("list[Any]", self._book[key]) for key in keys]
        self.tally.cut_texts += sum(ended_by == "length" for _, _, ended_by in answers)
        return [str(text) for text, _, _ in answers]

    def _text_request(
        self, arguments: tuple[str, Mapping[str, Any]], repeats: Counter[tuple[Any, ...]]
    ) -> TextRequest:
        text, kwargs = arguments
        settings = settings_of(kwargs, self.max_gen_toks)
        ids, sampling = self._fit_prompt(text, settings.max_gen_toks), settings.sampling
        if not sampling.is_greedy:
            # The same numbers for every model, so that drawn texts of two are pairs, too.
            draw = request_key("draw", self._seed, repeats[ids, settings], ids)
            repeats[ids, settings] += 1
            sampling = replace(sampling, seed=int(draw[:16], 16))
        prompt = GenerationRequest(ids, settings.max_gen_toks, self._eos, sampling)
        return TextRequest(prompt, TextEnd(self.tokenizer, settings.until, self._think_end))

    def _text_key(self, text: TextRequest) -> str:
        prompt, end = text.prompt, text.end
        settings = [prompt.max_gen_toks, prompt.eos, asdict(prompt.sampling)]
        settings += [end.until, end.think_end]
        return self._book.key("generate_until", prompt.prompt, json.dumps(settings))

    def _fit_prompt(self, text: str, max_gen_toks: int) -> tuple[int, ...]:
        """Token ids of a prompt, cut on the left so that there is room for what follows it."""
        ids = self.tok_encode(text) or [self.prefix_token_id]
        room = self.max_length - max_gen_toks
        if room < 1:
            raise ScoringError(
                f"A task generates up to {max_gen_toks} tokens, but the model can read only "
                f"{self.max_length} with its prompt; leave the task out."
            )
        return tuple(self._cut(ids, room))

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **_: Any
    ) -> list[tuple[float, bool]]:
        return self._answers([self._fit(context, target) for _, context, target in requests])

    def _windows(self, text: str) -> list[ScoringRequest]:
        windows = get_rolling_token_windows(
            # The prefix token stands for BOS, which must not come twice.
            token_list=self.tok_encode(text, add_special_tokens=False),
            prefix_token=self.prefix_token_id,
            max_seq_len=self.max_length,
            context_len=1,
        )
        pairs = map(make_disjoint_window, windows)
        return [ScoringRequest(tuple(context), tuple(target)) for context, target in pairs]

    def _fit(self, context: list[int], target: list[int]) -> ScoringRequest:
        """The request, its context cut on the left to what the model can read, BOS kept."""
        context = context or [self.prefix_token_id]  # such as when it was nothing but spaces
        room = self.max_length + 1 - len(target)
        if room < 1:
            raise ScoringError(
                f"A continuation of {len(target)} tokens is longer than the {self.max_length} "
                "that the model can read; leave its task out."
            )
        return ScoringRequest(tuple(self._cut(context, room)), tuple(target))

    def _cut(self, context: list[int], room: int) -> list[int]:
        """The context without its start where it is too long, BOS kept; it is counted."""
        if len(context) <= room:
            return context
        self.tally.truncated_requests += 1
        bos = context[:1] if self._starts_with_bos(context) and room > 1 else []
        return bos + context[len(context) - room + len(bos) :]

    def _starts_with_bos(self, ids: list[int]) -> bool:
        return bool(ids) and ids[0] == self.tokenizer.bos_token_id

    def _answers(self, requests: list[ScoringRequest]) -> list[tuple[float, bool]]:
        """Answers from the log, after those that it lacks have been scored and recorded."""
        keys = [self._book.key("loglikelihood", r.context, r.continuation) for r in requests]
        scored = self._book.complete(
            dict(zip(keys, requests, strict=True)),
            Scoring(self._batch_size, self._budget),
            self._share,
        )
        # Keys are hashes, so that the smallest of them are a sample.
        candidates = self._spot_checks | dict(scored)
        self._spot_checks = {key: candidates[key] for key in sorted(candidates)[:SPOT_CHECKS]}
        return [self._recorded(key) for key in keys]

    def _recorded(self, key: str) -> tuple[float, bool]:
        logprob, is_greedy = cast("list[Any]", self._book[key])
        return float(logprob), bool(is_greedy)
