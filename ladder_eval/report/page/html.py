"""The report as one HTML file that needs no other, and no network."""

import base64
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ladder_eval.report.page.chart_style import dark_style
from ladder_eval.report.page.content import Page

__all__ = ["environment", "page_html", "part"]


@cache
def environment() -> Environment:
    """The templates, which escape whatever they are given."""
    found = Environment(
        loader=PackageLoader("ladder_eval.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["data_uri"] = data_uri
    return found


def page_html(page: Page, runtime: str = "") -> str:
    """The page, with its plots, its style and its scripts inside.

    Args:
        page: What it says.
        runtime: The script that makes plots interactive; without it they are pictures.
    """
    template = environment().get_template("page.html.j2")
    return template.render(
        page=page,
        explorer=page.explorer,
        style=Markup(dark_style()) + part("page.css", "explorer.css"),
        script=part("page.js", "explorer.js"),
        runtime=Markup(runtime),
    )


def data_uri(svg: str) -> str:
    """An SVG document as an address; as an image, nothing in it is run."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def part(*names: str) -> Markup:
    """Files of our own as they are: the only text that isn't escaped."""
    folder = resources.files("ladder_eval.report.page") / "templates"
    texts = [(folder / name).read_text("utf-8") for name in names if (folder / name).is_file()]
    return Markup("\n".join(texts))
