"""The entry point of `plughost`. Exit codes: 0 success, 1 the plugin failed, 2 usage, 3 the host got no
answer."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click

from plughost.cli.options.groups import Group
from plughost.cli.ui import output
from plughost.errors import CallFailed, InvalidSpec, PluginError

COMMANDS = {
    "new": "new",
    "call": "call",
    "inspect": "inspect",
    "methods": "methods",
    "explain": "explain",
    "run": "hosts.run",
    "dev": "dev",
    "screen": "screen",
    "conform": "conform",
    "replay": "replay",
    "x": "x",
    "ps": "hosts.ps",
    "logs": "hosts.logs",
    "start": "hosts.control",
    "restart": "hosts.control",
    "reload": "hosts.control",
    "stop": "hosts.control",
    "data": "data",
    "doctor": "doctor",
    "pack": "vai.packing",
    "keygen": "vai.packing",
    "sign": "vai.packing",
    "verify": "vai.packing",
    "push": "vai.transfers",
    "pull": "vai.transfers",
    "install": "vai.packages",
    "packages": "vai.packages",
    "invoke": "vai.invoke",
    "invocations": "vai.invocations",
    "database": "vai.database",
    "serve": "serve",
    "gw": "gw",
}
"""By command name: its module in `commands`. Only the module of the used command is imported."""

SECTIONS = {
    "Write plugins": ("new", "dev", "conform", "replay"),
    "Run and call plugins": ("call", "run", "screen", "x", "methods", "inspect", "explain"),
    "Operate running hosts": ("ps", "logs", "start", "restart", "reload", "stop", "data"),
    "Packages": ("pack", "keygen", "sign", "verify", "push", "pull", "install", "packages"),
    "Invoke exports of packages": ("invoke", "invocations", "database"),
    "Run the gateway": ("serve", "gw"),
    "This machine": ("doctor",),
}
"""The sections of `plughost --help`, each with its commands."""


WIDEST = max(map(len, COMMANDS))


class Commands(Group):
    """A click group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = COMMANDS.get(cmd_name)
        if home is None:
            return None
        command: click.Command = getattr(import_module(f"plughost.cli.commands.{home}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section, each with the whole first sentence of its help."""
        listed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in listed)
        for title, names in {**SECTIONS, "Other commands": others}.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name.ljust(WIDEST), each.get_short_help_str(1000)) for name, each in found if each]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.command(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="plughost")
def plughost() -> None:
    """Run plugins as separate processes, call them, confine them and watch over them.

    A TARGET is a plugin folder, the name of a plugin in plughost.toml, or a command after `--` together
    with --contract. `plughost COMMAND --help` describes a command.
    """


class PluginUsage(InvalidSpec):
    """A usage error on the command line, as it is reported with --json."""

    code = "usage"


def main(argv: list[str] | None = None) -> None:
    """The console script. The words after `--` are a bare plugin command, and are not parsed as options."""
    output.guard_streams()
    output.say_warnings()
    words = sys.argv[1:] if argv is None else argv
    bare: list[str] = []
    if "--" in words and words[:1] != ["x"]:  # the words after a namespace belong to the plugin
        cut = words.index("--")
        words, bare = words[:cut], words[cut + 1 :]
    as_json = _wants_json(words)
    try:
        plughost.main(words, prog_name="plughost", obj=bare, standalone_mode=False)
    except click.ClickException as error:
        if as_json:
            output.failure(PluginUsage(error.format_message()), as_json=True)
        else:
            output.usage(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit is under way: another Ctrl-C changes nothing
        sys.exit(128 + signal.SIGINT)
    except CallFailed as error:
        output.answer({"error": error.report()})
        if not as_json:
            output.say(*error.lines())
        sys.exit(1)
    except PluginError as error:
        output.failure(error, as_json=as_json)
        sys.exit(2 if isinstance(error, InvalidSpec) else 3)
    except Exception as error:  # our own fault, or the terminal's: never mistaken for the plugin's answer
        output.say(f"plughost failed: {type(error).__name__}: {error}")
        sys.exit(3)


def _wants_json(words: list[str]) -> bool:
    """Whether failures are reported as JSON on stdout too."""
    return "--json" in words and words[:1] != ["x"]  # the words after a namespace belong to the plugin
