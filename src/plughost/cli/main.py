"""`plughost`: exit 0 fine, 1 the plugin said no, 2 usage, 3 the host could not get an answer."""

from __future__ import annotations

import sys
from itertools import pairwise

import click

from plughost.base.errors import CallFailed, InvalidSpec, PluginError
from plughost.cli import output
from plughost.cli.call import call
from plughost.cli.conform import conform
from plughost.cli.control import logs, ps, reload, stop
from plughost.cli.dev import dev
from plughost.cli.doctor import doctor
from plughost.cli.explain import explain
from plughost.cli.inspect import inspect
from plughost.cli.invocations import invocations
from plughost.cli.invoke import invoke
from plughost.cli.new import new
from plughost.cli.packages import install, packages
from plughost.cli.packing import keygen, pack, sign, verify
from plughost.cli.replay import replay
from plughost.cli.run import run
from plughost.cli.show import screen
from plughost.cli.transfers import pull, push
from plughost.cli.x import x


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="plughost")
def plughost() -> None:
    """One host for every out-of-process plugin.

    A TARGET is a plugin folder, a name from plughost.toml (-c FILE), or a bare command after `--`
    together with --contract.
    """


class PluginUsage(InvalidSpec):
    """Wrong words on the command line."""

    code = "usage"


for command in (
    new, call, inspect, explain, run, dev, screen, conform, replay, x, ps, logs, reload, stop, doctor,
):  # fmt: skip
    plughost.add_command(command)
for command in (pack, keygen, sign, verify, push, pull, install, packages, invoke, invocations):
    plughost.add_command(command)


def main(argv: list[str] | None = None) -> None:
    """The console script. What follows `--` is a command to run, kept apart from our own words."""
    words = sys.argv[1:] if argv is None else argv
    bare: list[str] = []
    if "--" in words and words[:1] != ["x"]:  # what follows a namespace is the plugin's
        cut = words.index("--")
        words, bare = words[:cut], words[cut + 1 :]
    as_json = _wants_json(words)
    try:
        plughost.main(words, prog_name="plughost", obj=bare, standalone_mode=False)
    except click.ClickException as error:
        if as_json:
            output.failure(PluginUsage(error.format_message()), as_json=True)
        else:
            error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except CallFailed as error:
        output.answer({"error": error.report()})
        if not as_json:
            output.say(error.explain())
        sys.exit(1)
    except PluginError as error:
        output.failure(error, as_json=as_json)
        sys.exit(2 if isinstance(error, InvalidSpec) else 3)
    except Exception as error:  # our own fault, or the terminal's: never mistaken for the plugin's answer
        output.say(f"plughost failed: {type(error).__name__}: {error}")
        sys.exit(3)


def _wants_json(words: list[str]) -> bool:
    """Whether failures, too, are to be JSON on stdout."""
    if words[:1] == ["conform"]:  # there it names a file
        return ("--json", "-") in pairwise(words) or "--json=-" in words
    return "--json" in words and words[:1] != ["x"]  # what follows a namespace is the plugin's
