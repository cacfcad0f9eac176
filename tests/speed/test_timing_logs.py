"""Files of timing logs, and what is wrong with them in one sentence."""

import pytest

from ladder_eval.errors import DataError
from ladder_eval.models.registry import MODELS
from ladder_eval.speed.timing_logs import read_logs

HEAD = "residual,model,tp_size,batch_size,p2p,mode,runs,prefill_s,decode_s\n"


def read(tmp_path, text):
    file = tmp_path / "logs.csv"
    file.write_text(text, encoding="utf-8")
    return read_logs(file, 1024, 512)


def test_rows_have_the_names_of_this_package(tmp_path):
    first, second = read(
        tmp_path,
        HEAD
        + "desync2x,llama-3-70b,8,4,off,compile,2,0.25,7.5\n"
        + "ladder-3,standard_1b,2,1,on,cuda_graph+flash,1,0.5,3\n",
    )
    assert (first.model, first.residual) == ("llama-3-70b", "desync-2x")
    assert first.config.topology == "desync-2x"
    assert first.config.as_standard() == MODELS["standard_70b"].config
    assert first.seconds == 7.75
    setting = first.setting
    assert (setting.tp_size, setting.link, setting.execution) == (8, "host", "compile")
    load = setting.workload
    assert (load.batch_size, load.prompt_len, load.output_len) == (4, 1024, 512)
    assert second.config.ladder_layers == (37, 38, 39)
    assert second.setting.link == "p2p"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("dense,llama-9,8,4,on,compile,1,1,1", "line 2: model 'llama-9' isn't one of"),
        ("dense,standard_1b,8,4,yes,compile,1,1,1", "p2p is on or off, not 'yes'"),
        ("dense,standard_1b,8,4,on,fast,1,1,1", "mode 'fast' is none of compile"),
        ("dense,standard_1b,8,0,on,compile,1,1,1", "batch_size is a positive number, not '0'"),
        ("dense,standard_1b,8,4,on,compile,1,1,nan", "decode_s is a positive number, not 'nan'"),
        ("dense,standard_1b,8,4,on,compile,1,1", "decode_s is a positive number, not None"),
    ],
)
def test_a_wrong_row_is_one_sentence(tmp_path, row, sentence):
    with pytest.raises(DataError, match=sentence):
        read(tmp_path, HEAD + row + "\n")


def test_a_wrong_file_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="has no column prefill_s, decode_s"):
        read(tmp_path, "residual,model,tp_size,batch_size,p2p,mode\n")
    with pytest.raises(DataError, match="can't be read"):
        read_logs(tmp_path / "absent.csv", 1024, 512)
