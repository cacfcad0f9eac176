"""The report as Markdown: the same tables and sentences as the page, plots as images beside it."""

from collections.abc import Iterator

from ladder_eval.report.page.content import Figure, Page, Section
from ladder_eval.report.tables import block_markdown, escaped, facts_markdown

__all__ = ["page_markdown"]


def page_markdown(page: Page) -> str:
    """The page as Markdown; its plots are `figures/NAME.svg`."""
    return "\n\n".join(_parts(page)) + "\n"


def _parts(page: Page) -> Iterator[str]:
    yield f"# {escaped(page.title)}"
    yield f"**{escaped(page.headline)}**"
    yield from map(escaped, (*page.conditions, page.subtitle))
    yield from (block_markdown(block) for block in page.glance)
    for verdict in page.verdicts:
        yield f"### {escaped(verdict.candidate)}"
        yield from map(escaped, verdict.sentences)
    yield from map(escaped, page.choices)
    if page.warnings:
        yield "## Before you believe it"
        yield "\n".join(f"* {escaped(warning)}" for warning in page.warnings)
    for section in page.sections:
        yield from _section(section)
    if page.explorer and page.explorer.index:
        yield f"## Documents\n\n[All documents and answers]({page.explorer.index})"


def _section(section: Section) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    yield from map(escaped, section.sentences)
    yield from map(_figure, section.figures)
    yield from (block_markdown(block, 3) for block in (*section.blocks, *section.folded))
    for facts in section.facts:
        yield f"### {escaped(facts.title)}"
        yield facts_markdown(facts.pairs)


def _figure(figure: Figure) -> str:
    alt = escaped(figure.alt).replace("]", "\\]").replace("[", "\\[")
    return f"![{alt}](figures/{figure.name}.svg)\n\n{escaped(figure.caption)}"
