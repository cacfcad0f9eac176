"""Programs in answers of every form that models give."""

import pytest
from code_problems import problem

from ladder_eval.harness.code.extraction import fenced_blocks, program

CODE = "def double(x):\n    return x + x"


def doubles(code):
    scope = {}
    exec(code, scope)
    return scope["double"](21) == 42


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"```python\n{CODE}\n```",
        f"```\n{CODE}\n```",
        f"~~~py\n{CODE}\n~~~",
        f"````python\n{CODE}\n````",
        f"Sure! Here it is:\n\n```python\n{CODE}\n```\nIt adds x to itself.",
        f"```python\n{CODE}",  # cut off before the fence ends
        f"1. The code:\n\n   ```python\n   {CODE.replace(chr(10), chr(10) + '   ')}\n   ```\n",
        f"Here is the function:\n{CODE}\nThis function adds x to itself, doesn't it?",
        f"```bash\npip install nothing\n```\n```python\n{CODE}\n```\n```\n42, isn't it\n```",
        f"```python\nprint(double(2))\n```\nwith\n```python\n{CODE}\n```",
        f"```python\n{CODE}\nprint(double(int(input())))\n```",
        f"```python\n{CODE}\n```\nor worse\n```python\ndef double(x):\n    return 3 * x\n```",
        "```python\nONE = 1\ndef once(x):\n    return ONE * x\n```\n"
        "```python\ndef double(x):\n    return once(x) + once(x)\n```",
        "```python\ndouble = lambda x: 2 * x\n```",
        "```python\nfrom functools import cache\n@cache\ndef double(x):\n    return 2 * x\n```",
        "```python\nclass A:\n    y = 2\ndef double(x):\n    return A.y * x\n```",
        f"```python\r\n{CODE}\r\n```",
    ],
)
@pytest.mark.parametrize("continues", [False, True])
def test_programs_are_found_in_answers(text, continues):
    assert doubles(program(text, problem(), continues=continues))


@pytest.mark.parametrize(
    "text",
    [
        "    return 2 * x\n",
        "    return math.trunc(2 * x)\n",
        "return 2 * x",
        "y = x\nreturn x + y",
        "    y = 2 * x\n    return y\n\nThis doubles x, as you asked.",
        "    return 2 * x\n```\nThat's it.",
        "    return 2 * x\n\n\nprint(double(1)\n",
        "```python\n    return 2 * x\n```",
        "```\nreturn 2 * x\n```\nIt's short.",
        'def double(x):\n    """Twice."""\n    return math.trunc(2 * x)',
    ],
)
def test_continuations_follow_their_prompt(text):
    assert doubles(program(text, problem(), continues=True))


def test_a_completion_keeps_the_helpers_of_its_prompt():
    prompt = "def once(x):\n    return x\n\n\ndef double(x):\n    'Twice.'\n"
    found = program(
        "```\ndef double(x):\n    return once(x) * 2\n```", problem(prompt=prompt), continues=True
    )
    assert doubles(found)


def test_a_whole_solution_is_not_touched():
    text = CODE + "\nimport sys; sys.setrecursionlimit(5000)\nx = double(1)\n"
    assert program(text, problem(), continues=False) == text


def test_a_solution_without_the_function_stays_what_it_is():
    assert "double" not in program("I can't do that.", problem(), continues=False)


def test_long_answers_are_not_parsed_in_every_range():
    text = "Yes, here:\n" + CODE + "\n" + "double(1)\n" * 3000 + "and so on, and so"
    assert doubles(program(text, problem(), continues=False))
    assert doubles(
        program("    return 2 * x\n" + "\nIt's that.\n" * 3000, problem(), continues=True)
    )


def test_only_the_fence_that_began_a_block_ends_it():
    assert fenced_blocks("~~~\na = '''\n```\n'''\n~~~\nx") == ["a = '''\n```\n'''"]
