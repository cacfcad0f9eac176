"""Reads charts back: an SVG by its marks, a PNG by its header."""

import re
import struct
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def parsed(figure):
    """The root of a figure's SVG."""
    return ET.fromstring(figure.svg)


def marks(figure, kind, tag):
    """The drawn elements of marks such as "rule" or "symbol"; neither axes' nor legends'."""
    return [
        each
        for group in parsed(figure).iter(f"{SVG}g")
        if f"mark-{kind} role-mark" in group.get("class", "")
        for each in group.iter(f"{SVG}{tag}")
    ]


def texts(figure):
    return ["".join(each.itertext()) for each in parsed(figure).iter(f"{SVG}text")]


def colours(figure):
    """Every colour that something is filled or drawn with."""
    body = figure.svg.partition("</style>")[2]
    return set(re.findall(r'(?:fill|stroke)="(#\w+)"', body))


def png_size(figure):
    """Width and height, checking the signature."""
    assert figure.png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", figure.png[16:24])


def svg_size(figure):
    return tuple(float(parsed(figure).get(name)) for name in ("width", "height"))
