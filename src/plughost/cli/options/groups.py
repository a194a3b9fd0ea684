"""A click group that names the nearest command when one is misspelt."""

from __future__ import annotations

import click

from plughost._util.nearest import did_you_mean


class Group(click.Group):
    """A group of commands; an unknown command is answered with the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
