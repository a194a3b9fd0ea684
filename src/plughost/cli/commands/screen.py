"""`plughost screen`: shows plugin screens in this terminal, or captures one frame as a picture."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from plughost import config, interrupt
from plughost._util.nearest import did_you_mean
from plughost.cli.options import plugin_roots, running, targets
from plughost.cli.options.numbers import NumberRange
from plughost.cli.ui import output
from plughost.contracts.registry import get_contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.screens.picture.capture import Capture
    from plughost.screens.session import ScreenSession

LARGEST = (500, 200)
"""Maximum columns and rows of a picture."""


class ScreenOptions(NamedTuple):
    """The screens to show, and where their plugins run."""

    screens: Sequence[tuple[str, str]]
    """Plugin and screen."""
    specs: Sequence[PluginSpec] = ()
    """Plugins to start: those with the screens, and others to run beside them."""
    host: Path | None = None
    """The socket of the running host that has the plugin; None to start plugins."""

    def session(self, first_only: bool = False) -> AbstractAsyncContextManager[ScreenSession]:
        """A session with the plugins of these screens, or only with that of the first one."""
        from plughost.screens.session import join_session, open_session

        if self.host is not None:
            return join_session(self.host, self.screens[0][0])
        shown = {plugin for plugin, _ in self.screens}
        wanted = {self.screens[0][0]} if first_only else shown
        others = [spec for spec in self.specs if spec.name not in shown]
        return open_session([spec for spec in self.specs if spec.name in wanted], others)


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
@running.hosts_or_new
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
    choice: running.HostChoice,
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

    PLUGIN is a plugin folder, the name of a plugin that `plughost run` keeps running, or the name of a plugin
    in --root. Without PLUGIN, all plugins in --root are shown.

    If `plughost run` runs the plugin, that process is shown, and keeps running when you leave. Otherwise a
    process is started. A folder, --root, -c and options that adjust the plugin always start a new process.

    Keys go to the plugin, except Ctrl+PgUp and Ctrl+PgDn (other screen) and Ctrl+Q (leave).

    \b
    Examples:
      plughost screen plugins/echo-ainb
      plughost screen --root dist/plugins
      plughost screen --host 4711 echo-ainb
      plughost screen plugins/echo-ainb --png echo.png --size 60x10
    """
    running_name = None if root is not None or plugin is None else target.running_name((plugin,))
    host = running.find_named(choice, running_name)
    if host is not None and plugin is not None:
        wanted = _wanted_running(host, plugin, name)
    else:
        looked = running_name is not None and not choice.new
        wanted = _wanted(root, plugin, name, target, looked=looked)
    if png is not None or svg is not None:
        drawn = _draw(wanted, png, svg, size, font, wait)
        if as_json:
            output.answer(drawn)
    elif as_json:
        raise click.UsageError("--json needs --png or --svg")
    elif not (os.isatty(0) and os.isatty(2)):
        raise click.UsageError(
            "this is not a terminal; use --png FILE or --svg FILE to draw a picture instead"
        )
    else:
        _show(wanted, fps)


def _wanted(
    root: Path | None, plugin: str | None, name: str | None, target: targets.Target, *, looked: bool
) -> ScreenOptions:
    """Screens of plugins to start. `looked` is whether no running host has the plugin."""
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
            where = f"{root or config.DEFAULT_ROOT}{', and no running host has it' if looked else ''}"
            raise click.UsageError(f"no plugin {plugin!r} in {where}{known}")
    else:
        chosen = list(specs)
    screens = [(spec.name, each) for spec in chosen for each in _screens(spec)]
    screens = _chosen(screens, name, plugin or str(root or config.DEFAULT_ROOT))
    return ScreenOptions(screens, [*{spec.name: spec for spec in (*specs, *chosen)}.values()])


def _wanted_running(host: running.FoundHost, plugin: str, name: str | None) -> ScreenOptions:
    document = next(each for each in host.plugins if each["name"] == plugin)
    if "provides" not in document:  # the manifest is read when the plugin is added
        raise InvalidSpec(
            f"it does not run in host {host}: its state is {document['state']}",
            plugin=plugin,
            hint=f"`plughost start {plugin}` starts it there; --new starts another process",
        )
    screens = [(plugin, each) for each in document["provides"].get("screens", ())]
    return ScreenOptions(_chosen(screens, name, plugin), host=host.path)


def _screens(spec: PluginSpec) -> tuple[str, ...]:
    return tuple(get_contract(spec.contract).resolve(spec).provides.get("screens", ()))


def _chosen(screens: list[tuple[str, str]], name: str | None, where: str) -> list[tuple[str, str]]:
    """The screens of that name, or all."""
    if not screens:
        raise click.UsageError(f"{where} has no screens")
    chosen = [(plugin, each) for plugin, each in screens if name in (None, each)]
    if not chosen:
        known = did_you_mean(name or "", [each for _, each in screens])
        raise click.UsageError(f"{where} has no screen {name!r}{known}")
    return chosen


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
    plugin, name = wanted.screens[0]
    rendering, seconds, _ = interrupt.run(_still(wanted, size, wait))
    drawn: dict[str, Any] = {"plugin": plugin, "screen": name, "columns": size[0], "rows": size[1]}
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


async def _still(wanted: ScreenOptions, size: tuple[int, int], wait: float | None) -> Capture:
    from plughost.screens.picture.capture import capture

    async with wanted.session(first_only=True) as (plugins, others, _):
        return await capture(plugins[0], *size, wait, others)


def _show(wanted: ScreenOptions, fps: float) -> None:
    try:
        from plughost.screens.terminal.run import run
    except ImportError as error:
        raise InvalidSpec(f"screens need textual: {error}", hint="pip install 'plughost[tui]'") from error
    code = interrupt.run(run(wanted.session(), wanted.screens, fps))
    if code:
        sys.exit(code)  # the failure has been reported, or a signal ended it
