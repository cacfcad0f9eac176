"""Solved examples before a question: drawn for each document by itself, or in lm-eval's sequence.

lm-eval draws examples from one stream of random numbers, document after document, so that a subset,
another order or another number of processes changes the prompts (its issues 1308 and 1719). Here a
document's examples depend on nothing but the seed, the document and the examples there are. With
STOCK the sequence is lm-eval's own, to be compared with results of others.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

from lm_eval.api.samplers import ContextSampler
from lm_eval.api.task import ConfigurableTask

from ladder_eval.errors import DataError, LadderEvalError

if TYPE_CHECKING:
    from ladder_eval.harness.code.task import Programs

PER_DOCUMENT = "per-document"
STOCK = "stock"

# lm-eval's own default, `fewshot_random_seed` of its evaluator.
STOCK_SEED = 1234

_Document = Mapping[str, Any]

Template = Callable[..., str]


class PerDocumentSampler(ContextSampler):  # type: ignore[misc]
    """Draws the examples of one document from a hash of the seed and the document.

    A row that asks the same question is never among them: neither the document itself, where
    examples come from the evaluated split, nor a duplicate of it.

    Args:
        df: The rows to draw from.
        seed: The seed.
        question: What a row asks.
    """

    def __init__(
        self, df: Sequence[_Document], *, seed: int, question: Callable[[_Document], object]
    ) -> None:
        super().__init__(df)
        self._seed = seed
        self._question = question
        self.document: _Document = {}

    def set_rnd(self, rnd: int | None) -> "PerDocumentSampler":
        """Nothing: there is no sequence that a seed could start."""
        return self

    def sample(self, n: int, *_: Any, **__: Any) -> list[_Document]:
        """Examples for `document`, in the order drawn.

        Raises:
            DataError: if there are too few.
        """
        asked = self._question(self.document)
        rows = (self.df[row] for row in shuffled(len(self.df), self._random()))
        drawn = list(islice((row for row in rows if self._question(row) != asked), n))
        if len(drawn) < n:
            raise DataError(f"There are {len(drawn)} examples to draw from; {n} are needed.")
        return drawn

    def _random(self) -> Random:
        document = json.dumps(self.document, sort_keys=True, default=str)
        digest = hashlib.sha256(f"{self._seed}/{document}".encode()).digest()
        return Random(int.from_bytes(digest))


def shuffled(size: int, random: Random) -> Iterator[int]:
    """0 to size - 1 in random order, without making the whole list (Fisher and Yates).

    It takes nothing from `random` but what Python promises never to change: `random()`.
    """
    moved: dict[int, int] = {}
    for last in reversed(range(size)):
        place = int(random.random() * (last + 1))
        yield moved.get(place, place)
        moved[place] = moved.get(last, last)


class FewShotTask(ConfigurableTask):  # type: ignore[misc]
    """lm-eval's task, whose examples may be drawn for each document by itself.

    Examples that the task fixes, such as MMLU's first five, stay as they are.

    Args:
        config: lm-eval's configuration.
        fewshot: PER_DOCUMENT or STOCK.
        seed: Seed of PER_DOCUMENT.

    Attributes:
        template: Renders a conversation as a prompt, where the task is asked so.
    """

    sampler: ContextSampler
    template: Template | None = None

    def __init__(self, config: dict[str, Any], *, fewshot: str = PER_DOCUMENT, seed: int = 0):
        super().__init__(config=config)
        if self.is_drawn and fewshot == PER_DOCUMENT:
            self.sampler = PerDocumentSampler(self.sampler.df, seed=seed, question=self._question)
        self.restart()

    @property
    def is_drawn(self) -> bool:
        """Whether its examples are drawn, rather than fixed."""
        return bool(self.config.num_fewshot) and self.fewshot_cfg.sampler == "default"

    def begin(self, *, template: Template | None, programs: "Programs | None" = None) -> None:
        """Get ready for a model.

        Args:
            template: Its chat template, if the task is to be asked in it.
            programs: Where programs run, for tasks that have their answers run.
        """
        self.template = template
        self.restart()

    def restart(self) -> None:
        """Begin lm-eval's sequence anew, so that each model is asked the same."""
        self.set_fewshot_seed(STOCK_SEED)

    def build_all_requests(self, **kwargs: Any) -> None:
        """lm-eval's requests, of which none reaches a model before all are built.

        Raises:
            DataError: if a row doesn't suit the task.
        """
        chat = {"apply_chat_template": True, "chat_template": self.template}
        try:
            super().build_all_requests(**kwargs | (chat if self.template else {}))
        except LadderEvalError:
            raise
        except Exception as error:  # a task's functions and templates can fail as anything
            raise DataError(
                f"A row of the data doesn't suit its task {self.config.task} ({error!r}); "
                "fetch the data again."
            ) from None

    def construct_requests(self, doc: _Document, *args: Any, **kwargs: Any) -> Any:
        """lm-eval's requests of a document, if it has an answer: lm-eval looks when all is done."""
        self.doc_to_target(doc)
        return super().construct_requests(doc, *args, **kwargs)

    def fewshot_context(self, doc: _Document, *args: Any, **kwargs: Any) -> str | list[str]:
        """lm-eval's prompt; lm-eval doesn't tell samplers whose it is."""
        if isinstance(self.sampler, PerDocumentSampler):
            self.sampler.document = doc
        context: str | list[str] = super().fewshot_context(doc, *args, **kwargs)
        return context

    def _question(self, doc: _Document) -> object:
        """What a row asks: its text, or its texts where each choice makes one."""
        return self.doc_to_choice(doc) if self.multiple_input else self.doc_to_text(doc)
