"""The program in what a model wrote: fences, prose around code, and bodies without their prompt."""

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

from evalplus.sanitize import sanitize

from ladder_eval.harness.code.problems import Problem

__all__ = ["fenced_blocks", "program"]

_FENCE: Final = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^`\n]*$")
_PYTHON: Final = frozenset({"", "python", "python3", "py", "py3", "pycon", "ipython"})
_BEGINNINGS: Final = ("import ", "from ", "def ", "class ", "@")
_MOST_LINES: Final = 80
"""evalplus' sanitizer parses every range of lines, which takes half a second for 80 of them."""


def program(text: str, problem: Problem, *, continues: bool) -> str:
    """The program that an answer stands for.

    A whole program without fences is run as it stands, as evalplus' evaluation does. Anything else
    goes through evalplus' sanitizer, which keeps imports and what the function needs.

    Args:
        text: What the model wrote.
        problem: What it answers.
        continues: Whether the text may be a continuation of the prompt.
    """
    with warnings.catch_warnings(action="ignore"):  # such as of escapes in a model's strings
        if not continues and _defines(text, problem.entry_point):
            return text
        for candidate in _candidates(text, problem, continues=continues):
            if found := _cleaned(candidate, problem.entry_point):
                return found
        return problem.prompt + text if continues else text


def fenced_blocks(text: str) -> list[str]:
    """Python in fences, dedented; a fence that never ends goes on to the end of the text."""
    blocks: list[tuple[str, list[str]]] = []
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence and mark and not mark["language"] and mark["fence"].startswith(fence):
            fence = ""
        elif fence:
            blocks[-1][1].append(line)
        elif mark:
            fence = mark["fence"]
            blocks.append((mark["language"].lower(), []))
    return [textwrap.dedent("\n".join(lines)) for name, lines in blocks if name in _PYTHON]


def _candidates(text: str, problem: Problem, *, continues: bool) -> Iterator[str]:
    """Texts that may hold the program, the likeliest first."""
    blocks = fenced_blocks(text)
    defining = [block for block in blocks if _defines(block, problem.entry_point)]
    others = [block for block in blocks if block not in defining and _parses(block)]
    whole = ["\n\n".join([*defining, *others])] if blocks else []
    if continues:
        for code in (*whole, *blocks, _before_fence(text)):
            yield from _with_prompt(code, problem)
    yield from (*whole, *blocks, text)


def _with_prompt(code: str, problem: Problem) -> Iterator[str]:
    """Code after its prompt, whose imports and helpers it may need.

    A body comes as it should be, without the first line's indentation, or without any.
    """
    if _defines(code, problem.entry_point):
        yield problem.prompt + "\n" + code
        yield code
    elif code.strip():
        yield problem.prompt + code
        yield problem.prompt + "\n    " + code.lstrip()
        yield problem.prompt + "\n" + textwrap.indent(textwrap.dedent(code), "    ")


def _before_fence(text: str) -> str:
    """A continuation that a model ended by closing the fence which its prompt would have opened."""
    return "\n".join(_until(text.splitlines()))


def _until(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if _FENCE.match(line):
            return
        yield line


def _cleaned(code: str, entry_point: str) -> str | None:
    """The part of a candidate that is the program; None if the function isn't in it."""
    if (whole := _defines(code, entry_point)) and _sanitizer_loses(code):
        return code
    lines = code.count("\n") + 1
    clean = (
        str(sanitize(code, entry_point)) if lines <= _MOST_LINES else _first_part(code, entry_point)
    )
    if _defines(clean, entry_point):
        return clean
    return code if whole else None


def _first_part(code: str, entry_point: str) -> str:
    """What defines the function, from the first line that looks like code to the last that is."""
    lines = code.split("\n")
    for start, line in enumerate(lines):
        if start == 0 or line.startswith(_BEGINNINGS):
            part = _longest_start(lines[start:])
            if _defines(part, entry_point):
                return part
    return ""


def _longest_start(lines: Sequence[str]) -> str:
    """Lines from the first on, without the one that Python stumbles over and what follows it."""
    end = len(lines)
    while end > 0:
        try:
            ast.parse("\n".join(lines[:end]))
            break
        except SyntaxError as error:
            end = min(end, error.lineno or end) - 1
        except (ValueError, MemoryError, RecursionError):
            return ""
    return "\n".join(lines[:end])


def _defines(code: str, entry_point: str) -> bool:
    """Whether it's Python that defines the function, with more than a docstring in it."""
    tree = _tree(code)
    return tree is not None and any(
        _is_written(node)
        if getattr(node, "name", None) == entry_point
        else _assigns(node, entry_point)
        for node in tree.body
    )


def _is_written(node: ast.stmt) -> bool:
    body = getattr(node, "body", [])
    return any(not isinstance(part, ast.Pass) and not _is_text(part) for part in body)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _assigns(node: ast.stmt, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _sanitizer_loses(code: str) -> bool:
    """Whether it has what the sanitizer takes out though it's needed: decorated functions."""
    tree = _tree(code)
    return tree is not None and any(getattr(node, "decorator_list", []) for node in tree.body)


def _parses(code: str) -> bool:
    return _tree(code) is not None


def _tree(code: str) -> ast.Module | None:
    try:
        tree = ast.parse(code)
        compile(tree, "solution.py", "exec", dont_inherit=True)  # finds a return out of place
        return tree
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
