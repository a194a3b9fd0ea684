"""Draws a rendering as a PNG, cell by cell: nothing is drawn outside of its own cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from plughost.contracts.ainb.messages import Color
from plughost.errors import InvalidSpec
from plughost.screens.cell_width import columns_of
from plughost.screens.colors import DEFAULT_BG, ResolvedStyle, resolve_style
from plughost.screens.picture.fonts import FontFamily
from plughost.screens.render import Rendering, Span

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

POINTS = 16


class PngDrawer:
    """Draws renderings with one font family; tiles of characters are cached."""

    def __init__(self, family: FontFamily) -> None:
        self._regular = _font(family.regular)
        self._bold = _font(family.bold) if family.bold else self._regular
        self._italic = _font(family.italic) if family.italic else self._regular
        ascent, descent = self._regular.getmetrics()
        self.wide, self.high = max(round(self._regular.getlength("M")), 1), ascent + descent
        self._tiles: dict[tuple[str, int, ResolvedStyle], Image] = {}

    def draw(self, rendering: Rendering) -> Image:
        """The rendering as an RGB image."""
        from PIL import Image

        size = (rendering.width * self.wide, rendering.height * self.high)
        image = Image.new("RGB", size, _rgb(DEFAULT_BG))
        for y, row in enumerate(rendering.rows):
            x = 0
            for span in row:
                self._draw_span(image, span, x, y)
                x += span.columns
        return image

    def _draw_span(self, image: Image, span: Span, x: int, y: int) -> None:
        style = resolve_style(span)
        for text, columns in columns_of(span.text):
            image.paste(self._tile(text, columns, style), (x * self.wide, y * self.high))
            x += columns

    def _tile(self, text: str, columns: int, style: ResolvedStyle) -> Image:
        from PIL import Image, ImageDraw

        key = (text, columns, style)
        if key not in self._tiles:
            width = columns * self.wide
            tile = Image.new("RGB", (width, self.high), _rgb(style.bg))
            draw = ImageDraw.Draw(tile)
            font = self._bold if style.bold else self._italic if style.italic else self._regular
            left = max((width - font.getlength(text[0])) / 2, 0) if columns > 1 else 0
            for each in text:  # combining marks are drawn over their character
                draw.text((left, 0), each, font=font, fill=_rgb(style.fg))
            if style.underlined:
                draw.line((0, self.high - 2, width, self.high - 2), fill=_rgb(style.fg))
            self._tiles[key] = tile
        return self._tiles[key]


def _font(path: str) -> FreeTypeFont:
    try:
        from PIL import ImageFont
    except ImportError as error:
        raise InvalidSpec("pictures need Pillow", hint="pip install 'plughost[tui]'") from error
    try:
        return ImageFont.truetype(path, POINTS, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise InvalidSpec(f"{path} is not a usable font: {error}", hint="--font takes a .ttf") from error


def _rgb(colour: Color) -> tuple[int, int, int]:
    return colour.r, colour.g, colour.b


def render_png(rendering: Rendering, family: FontFamily, path: Path) -> tuple[int, int]:
    """Write the rendering to a PNG file; returns its size in pixels."""
    image = PngDrawer(family).draw(rendering)
    image.save(path, "PNG")
    return image.size
