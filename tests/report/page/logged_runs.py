"""Makes finished runs with what lm-eval logged: choices, written text, and a page's perplexity."""

import json
from dataclasses import replace

from page_records import record
from run_folders import model, rows, task, write_run

from ladder_eval.report.page.content import Run
from ladder_eval.results.store import RunFolder, read_result

SCRIPT = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"

HYBRID = "hybrid <b>&amp;"

# Which documents of "arc" each model has right.
RIGHT = {"dense": {0, 1, 2, 3}, "ladder": {0, 1, 4}, HYBRID: {0, 1, 2, 5}}

# Of "red" and "yellow": by sums the first is always chosen, by characters not.
SCORES = {True: (-3.0, -9.0), False: (-4.5, -6.0)}


def choice_rows(name, documents=6):
    """A model's answers on `arc`, whose right answer is always red."""
    right = [i in RIGHT[name] for i in range(documents)]
    found = rows(name, "arc", right, metric="acc_norm")
    for row, is_right in zip(found, right, strict=True):
        row["answers"] = json.dumps([[each, False] for each in SCORES[is_right]])
        row["target"] = "0"
        row["document"] = json.dumps({"id": row["doc_id"], "question": question(row["doc_id"])})
    return found


def question(number):
    return f"What colour has flower {number}?"


def text_rows(name):
    """A model's answers to two questions of `sums`: what the filter extracted."""
    values, given = ([1, 0], ["4", "7"]) if name == "dense" else ([1, 1], ["4", "5"])
    found = rows(name, "sums", values, metric="exact_match")
    for row, each in zip(found, given, strict=True):
        row |= {"answers": json.dumps([each]), "target": ["4", "5"][row["doc_id"]]}
        row["document"] = json.dumps({"question": f"2 + {2 + row['doc_id']}?"})
    return found


def page_rows(name):
    """A model's log-likelihood of a page of `wiki`: 2 nats a word, of the ladders 3."""
    nats = 2.0 if name == "dense" else 3.0
    (found,) = rows(name, "wiki", [nats], metric="word_perplexity", weights=[50])
    return [found | {"answers": json.dumps([-50 * nats]), "target": "Once upon a time."}]


def request(row, name):
    """What lm-eval logs as asked and answered."""
    if row["task"] == "arc":
        prompt = f"Question: {question(row['doc_id'])}\nAnswer:"
        asked = [(prompt, " red"), (prompt, " yellow")]
        return asked, [[[str(each), "False"]] for each, _ in json.loads(row["answers"])]
    if row["task"] == "sums":
        text = f"It is {json.loads(row['answers'])[0]}. {SCRIPT}\n— {name}"
        return [(f"Q: 2 + {2 + row['doc_id']}?\nA:", {"until": ["Q:"]})], [[text]]
    return [(row["target"],)], [[row["answers"].strip("[]")]]


def log(folder, found):
    """Write the rows of one model as lm-eval logs them."""
    for row in found:
        asked, answered = request(row, row["model"])
        line = {
            "doc_id": row["doc_id"],
            "doc": json.loads(row["document"]),
            "target": row["target"],
            "arguments": {
                f"gen_args_{i}": {f"arg_{j}": value for j, value in enumerate(each)}
                for i, each in enumerate(asked)
            },
            "resps": answered,
            "doc_hash": row["doc_hash"],
        }
        name = row["model"].replace("<", "__").replace(">", "__")
        path = folder / "lm_eval" / name / f"samples_{row['task']}_2026-01-31T12-00-00.000001.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def made_up(folder, *, logged=True):
    """A run of three models, timed, with its answers logged."""
    by_model = [[*choice_rows(each), *text_rows(each), *page_rows(each)] for each in RIGHT]
    made = write_run(
        folder,
        [row for found in by_model for row in found],
        models=[
            model(each, residual="standard" if each == "dense" else "ladder") for each in RIGHT
        ],
        tasks=[
            task("arc", "acc_norm", 6, 570),
            task("sums", "exact_match", 2),
            task("wiki", "word_perplexity", 1),
        ],
        baseline="dense",
    )
    for found in by_model if logged else ():
        log(made, found)
    result = replace(read_result(made), speed=(record({"ladder": 1.2, HYBRID: 1.1}),))
    with RunFolder.open(made) as opened:
        opened.write_result(result)
    return Run(folder=made, result=result)


def many(folder, documents, *, candidates=("ladder",), tasks=("a", "b"), changed=0):
    """A run in which each candidate loses and gains the same `changed` documents of each task."""
    base = [row for name in tasks for row in rows("dense", name, [i % 2 for i in range(documents)])]
    own = [
        row
        for candidate in candidates
        for name in tasks
        for row in rows(
            candidate, name, [1 - i % 2 if i < changed else i % 2 for i in range(documents)]
        )
    ]
    made = write_run(
        folder,
        [*base, *own],
        models=[model(each) for each in ("dense", *candidates)],
        tasks=[task(name, "acc", documents) for name in tasks],
        baseline="dense",
    )
    return Run(folder=made, result=read_result(made))
