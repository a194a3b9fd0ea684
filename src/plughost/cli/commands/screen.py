"""`plughost screen`: shows plugin screens in this terminal, or captures one frame as a picture."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from plughost import config, interrupt
from plughost._util.nearest import did_you_mean
from plughost.cli.options import plugin_roots, targets
from plughost.cli.options.numbers import NumberRange
from plughost.cli.ui import output
from plughost.contracts.registry import get_contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.screens.picture.capture import Capture

LARGEST = (500, 200)
"""Maximum columns and rows of a picture."""


class ScreenOptions(NamedTuple):
    """The screens to show, and the other plugins to run beside them."""

    screens: list[tuple[PluginSpec, str]]
    others: list[PluginSpec]


def _size(context: click.Context, option: click.Parameter, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
    width, height = map(int, match.groups()) if match else (0, 0)
    if not (1 <= width <= LARGEST[0] and 1 <= height <= LARGEST[1]):
        most = "x".join(map(str, LARGEST))
        raise click.BadParameter(f"a size is columns x rows, such as 80x24, at most {most}")
    return width, height


@click.command()
@plugin_roots.option
@targets.adjusting
@click.option(
    "--fps",
    type=NumberRange(1, 60),
    default=30.0,
    metavar="N",
    help="Maximum frames per second. Default: 30.",
)
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=Path), help="Draw one frame as PNG into this file."
)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw one frame as SVG into this file."
)
@click.option(
    "--size",
    default="80x24",
    callback=_size,
    metavar="COLUMNSxROWS",
    help="Size of the picture. Default: 80x24.",
)
@click.option("--font", type=click.Path(exists=True, dir_okay=False), help="Monospace .ttf font for --png.")
@click.option(
    "--wait",
    type=NumberRange(0, 600),
    metavar="SECONDS",
    help="Time to let the plugin run before the capture. Default: until its screen stops changing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was drawn as JSON.")
@click.argument("plugin", required=False)
@click.argument("name", metavar="[SCREEN]", required=False)
def screen(
    root: Path | None,
    target: targets.Target,
    fps: float,
    png: Path | None,
    svg: Path | None,
    size: tuple[int, int],
    font: str | None,
    wait: float | None,
    as_json: bool,
    plugin: str | None,
    name: str | None,
) -> None:
    """Show a plugin's screens in the terminal, or as a picture.

    PLUGIN is a plugin folder, or the name of a plugin in --root. Without it, all plugins in --root are shown.
    Keys go to the plugin, except Ctrl+PgUp and Ctrl+PgDn (other screen) and Ctrl+Q (leave).

    \b
    Examples:
      plughost screen plugins/echo-ainb
      plughost screen --root dist/plugins
      plughost screen plugins/echo-ainb --png echo.png --size 60x10
    """
    wanted = _wanted(root, plugin, name, target)
    if png is not None or svg is not None:
        drawn = _draw(wanted, png, svg, size, font, wait)
        if as_json:
            output.answer(drawn)
    elif as_json:
        raise click.UsageError("--json needs --png or --svg")
    elif not (os.isatty(0) and os.isatty(2)):
        raise click.UsageError("this is not a terminal; --png FILE or --svg FILE draws one frame without one")
    else:
        _show(wanted, fps)


def _wanted(root: Path | None, plugin: str | None, name: str | None, target: targets.Target) -> ScreenOptions:
    folder = None if plugin is None or "/" not in plugin else Path(plugin)
    specs: Sequence[PluginSpec] = (
        () if folder is not None and root is None else plugin_roots.take(root, (), target)[0]
    )
    if folder is not None:
        chosen = [target.adjusted(target.in_folder(folder))]
    elif plugin is not None:
        chosen = [spec for spec in specs if spec.name == plugin]
        if not chosen:
            known = did_you_mean(plugin, [spec.name for spec in specs])
            raise click.UsageError(f"no plugin {plugin!r} in {root or config.DEFAULT_ROOT}{known}")
    else:
        chosen = list(specs)
    screens = [(spec, each) for spec in chosen for each in _screens(spec)]
    if name is not None:
        known = did_you_mean(name, [each for _, each in screens])
        screens = [(spec, each) for spec, each in screens if each == name]
        if not screens:
            raise click.UsageError(f"{plugin} has no screen {name!r}{known}")
    if not screens:
        raise click.UsageError(f"{plugin or root or config.DEFAULT_ROOT} has no screens")
    shown = {spec.name for spec, _ in screens}
    return ScreenOptions(screens, [spec for spec in specs if spec.name not in shown])


def _screens(spec: PluginSpec) -> tuple[str, ...]:
    return tuple(get_contract(spec.contract).resolve(spec).provides.get("screens", ()))


def _draw(
    wanted: ScreenOptions,
    png: Path | None,
    svg: Path | None,
    size: tuple[int, int],
    font: str | None,
    wait: float | None,
) -> dict[str, Any]:
    from plughost.screens.picture import fonts, png_image
    from plughost.screens.picture.svg import render_svg

    family = (
        fonts.FontFamily(font) if font else fonts.find_font() if png else None
    )  # before anything is started
    spec, name = wanted.screens[0]
    rendering, seconds, _ = interrupt.run(_still(spec, wanted.others, size, wait))
    drawn: dict[str, Any] = {"plugin": spec.name, "screen": name, "columns": size[0], "rows": size[1]}
    try:
        if png is not None and family is not None:
            wide, high = png_image.render_png(rendering, family, png)
            drawn["png"] = {"file": str(png), "width": wide, "height": high, "font": family.regular}
        if svg is not None:
            svg.write_text(render_svg(rendering), encoding="utf-8")
            drawn["svg"] = {"file": str(svg)}
    except OSError as error:
        raise InvalidSpec(f"cannot write the picture: {error}") from error
    return {**drawn, "frame_ms": round(seconds * 1e3, 3)}


async def _still(
    spec: PluginSpec, others: Sequence[PluginSpec], size: tuple[int, int], wait: float | None
) -> Capture:
    from plughost.screens.picture.capture import capture
    from plughost.screens.session import open_session

    async with open_session([spec], others) as (host, (plugin,), coming):
        return await capture(host, plugin, *size, wait, coming)


def _show(wanted: ScreenOptions, fps: float) -> None:
    try:
        from plughost.screens.terminal.run import run
    except ImportError as error:
        raise InvalidSpec(f"screens need textual: {error}", hint="pip install 'plughost[tui]'") from error
    code = interrupt.run(run(wanted.screens, wanted.others, fps))
    if code:
        sys.exit(code)  # the failure has been reported, or a signal ended it
