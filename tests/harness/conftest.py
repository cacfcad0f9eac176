"""A language model over a tiny checkpoint, and variants of its tokenizer."""

import shutil
from contextlib import ExitStack

import pytest
import torch
from alone import Alone
from lm_eval.api.instance import Instance
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from ladder_eval.harness.adapter import LadderLM
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.results.requests import RequestLog


class Steps:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.started, self.advanced = [], []

    def start(self, tokens, share):
        self.started.append(tokens)

    def advance(self, tokens):
        self.advanced.append(tokens)


@pytest.fixture
def make_lm(tmp_path, tiny_checkpoint):
    """A LadderLM; by default over the tiny checkpoint, with a log of its own."""
    with ExitStack() as stack:

        def make(
            folder=tiny_checkpoint,
            *,
            answers="answers",
            identity=("model", "float32"),
            batch_size=8,
            max_length=None,
            ladder_layers=0,
            load=None,
            eos=(2, 257),
            **settings,
        ):
            config = read_config(folder).with_ladder(ladder_layers)

            def real():
                cpu = torch.device("cpu")
                model = load_model(folder, config, dtype=torch.float32, device=cpu)
                return Alone(model)

            log = stack.enter_context(RequestLog(tmp_path / f"{answers}.jsonl"))
            return LadderLM(
                identity=identity,
                load=load or real,
                tokenizer=AutoTokenizer.from_pretrained(folder),
                eos=eos,
                max_length=max_length or config.max_position_embeddings,
                vocab_size=config.vocab_size,
                log=log,
                batch_size=batch_size,
                progress=Steps(),
                **settings,
            )

        yield make


@pytest.fixture(scope="session")
def bos_checkpoint(tmp_path_factory, tiny_checkpoint):
    """The tiny checkpoint with a tokenizer that puts <s> before every text."""
    folder = tmp_path_factory.mktemp("models") / "bos"
    shutil.copytree(tiny_checkpoint, folder)
    file = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(file)
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 256)]
    )
    tokenizer.save(file)
    return folder


@pytest.fixture
def ask():
    """Log-likelihoods of (context, continuation) pairs."""

    def ask(lm, pairs):
        return lm.loglikelihood([_instance("loglikelihood", pair) for pair in pairs])

    return ask


@pytest.fixture
def write():
    """Texts after prompts, all with the same generation_kwargs."""

    def write(lm, prompts, **kwargs):
        return lm.generate_until(
            [_instance("generate_until", (prompt, kwargs)) for prompt in prompts]
        )

    return write


@pytest.fixture
def roll():
    """Log-likelihoods of whole texts."""

    def roll(lm, texts):
        return lm.loglikelihood_rolling(
            [_instance("loglikelihood_rolling", (text,)) for text in texts]
        )

    return roll


def _instance(kind, arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)
