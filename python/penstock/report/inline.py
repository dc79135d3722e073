"""Figures inside of a page, with text that a reader can search."""

import re
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from penstock.figures import Picture

_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_OPENING = re.compile(r"<svg .*?viewBox=\"([^\"]*)\".*?>", re.DOTALL)
_NAME = re.compile(r"(\bid=\"|\burl\(#|\bhref=\"#)")


def inline(picture: "Picture", prefix: str) -> Markup:
    """The figure as an SVG element. Its ids begin with `prefix`, because ids of a page must differ."""
    text = picture.svg.read_text(encoding="utf-8")
    text = _METADATA.sub("", text[text.index("<svg") :])
    alt = escape(picture.alt or picture.title)
    text = _OPENING.sub(lambda match: f'<svg role="img" aria-label="{alt}" viewBox="{match[1]}">', text, count=1)
    # The file is matplotlib's, which escapes labels.
    return Markup(_NAME.sub(lambda match: f"{match[1]}{prefix}-", text))  # noqa: S704
