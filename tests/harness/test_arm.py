"""Tokenizers of checkpoint folders that are damaged or mean harm."""

import json

import pytest
from tiny_checkpoint import write_checkpoint

from ladder_eval.errors import CheckpointError
from ladder_eval.harness.arm import read_tokenizer


@pytest.fixture
def spoil(tmp_path):
    """A checkpoint folder whose tokenizer_config.json has other settings."""

    def made(**settings):
        write_checkpoint(tmp_path)
        file = tmp_path / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | settings))
        return tmp_path

    return made


@pytest.mark.parametrize("length", [{}, [], "much"])
def test_settings_that_make_no_sense_are_one_sentence(spoil, length):
    with pytest.raises(CheckpointError, match="can't be read: TypeError"):
        read_tokenizer(spoil(model_max_length=length))


def test_code_that_a_tokenizer_points_to_is_not_run(spoil):
    folder = spoil(auto_map={"AutoTokenizer": ["evil.Evil", None]}, tokenizer_class="Evil")
    (folder / "evil.py").write_text("raise SystemExit('run')")
    try:
        assert type(read_tokenizer(folder)).__module__.startswith("transformers.")
    except CheckpointError as error:
        assert "can't be read" in str(error)  # noqa: PT017 - either will do, but no SystemExit
