"""SmolLM2's greedy texts beside those of transformers, where the cache has the model."""

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from ladder_eval.engine.generation import GenerationRequest, generate
from ladder_eval.models.checkpoint import load_model

NEW = 8
TOLERANCE = 1e-3  # of two logits so near, another order of summing may choose the other

SENTENCES = [
    "The capital of France is",
    "Water boils at a temperature of",
    "Once upon a time, in a small village by the sea, there lived",
    "def mean(values):\n    return",
    "1, 1, 2, 3, 5, 8,",
    "Question: Which animal gives milk?\nAnswer:",
    "Dear Sir or Madam,",
    "Zwei plus zwei ist",
    "The three states of matter are solid,",
    "To be, or not to be,",
    "My favourite colour is",
    "In 1969, people walked on the Moon for the first time.",
]


def prompts(tokenizer):
    """Twenty, of 2 to about 250 tokens; one of them in the chat template."""
    long = [" ".join(SENTENCES[i:] + SENTENCES[:i]) for i in (1, 4, 7)]
    longer = ["\n\n".join([each] * 2) for each in long[:2]]
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of Italy?"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    return [*SENTENCES, *long, *longer, "Hello", "x =", chat]


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return AutoTokenizer.from_pretrained(smollm2.folder)


@pytest.fixture(scope="module")
def expected(smollm2, tokenizer):
    """For each prompt alone: its tokens, and how far the best of each stood above the second."""
    model = LlamaForCausalLM.from_pretrained(smollm2.folder, dtype=torch.float32).eval()
    found = []
    for prompt in prompts(tokenizer):
        ids = tokenizer(prompt, return_tensors="pt")
        answer = model.generate(
            **ids,
            do_sample=False,
            max_new_tokens=NEW,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.eos_token_id,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.cat(answer.logits).topk(2).values
        tokens = answer.sequences[0, ids.input_ids.shape[1] :].tolist()
        found.append((tokens, (best[:, 0] - best[:, 1]).tolist()))
    return found


@pytest.mark.parametrize("batch_size", [8])
def test_greedy_texts_are_those_of_transformers(smollm2, tokenizer, expected, batch_size):
    config = smollm2.config.as_standard()
    cpu = torch.device("cpu")
    model = load_model(smollm2.folder, config, dtype=torch.float32, device=cpu)
    eos = tokenizer.eos_token_id
    requests = [
        GenerationRequest(tuple(tokenizer(prompt).input_ids), NEW, (eos,))
        for prompt in prompts(tokenizer)
    ]
    assert len(requests) == 20
    stops = [lambda tokens: False] * len(requests)
    answers = dict(generate(model, requests, stops, batch_size=batch_size))
    ties = []
    for index, (tokens, gaps) in enumerate(expected):
        ours = [*answers[index].tokens, *([eos] if answers[index].ended_by == "eos" else [])]
        if ours != tokens:
            at = next(i for i, (a, b) in enumerate(zip(ours, tokens, strict=False)) if a != b)
            ties.append((index, at, gaps[at]))
    assert all(gap < TOLERANCE for _, _, gap in ties), f"(prompt, token, gap): {ties}"
