"""Tables for a paper: LaTeX with booktabs' rules."""

from typing import Final

from ladder_eval.report.block import Block

__all__ = ["block_latex", "latex_text"]

# What LaTeX reads as its own, and what the reports print that pdflatex has no letter for.
_LETTERS: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "%": r"\%",
        "&": r"\&",
        "#": r"\#",
        "$": r"\$",
        "_": r"\_",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "−": r"$-$",
        "×": r"$\times$",
        "±": r"$\pm$",
        "µ": r"\textmu{}",
        "—": "---",
        "–": "--",
        "†": r"\textdagger{}",
        "‡": r"\textdaggerdbl{}",
        "\n": " ",
    }
)


def latex_text(text: str) -> str:
    """A text as LaTeX sets it, letter by letter; a bracket at its start is no argument."""
    found = text.translate(_LETTERS)
    return f"{{}}{found}" if found.startswith("[") else found


def block_latex(block: Block, label: str) -> str:
    r"""A block as a table environment; it needs \usepackage{booktabs}.

    Args:
        block: The table; its title is the caption, its notes stand below it.
        label: What `\ref` calls it.
    """
    body, last = (block.rows[:-1], block.rows[-1:]) if block.total else (block.rows, ())
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(block.title)}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(block.columns) - 1)}}}",
        r"    \toprule",
        _row(block.columns),
        r"    \midrule",
        *map(_row, body),
        *([r"    \midrule"] if last else []),
        *map(_row, last),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\footnotesize {latex_text(note)}" for note in block.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return f"    {' & '.join(map(latex_text, cells))} \\\\"
