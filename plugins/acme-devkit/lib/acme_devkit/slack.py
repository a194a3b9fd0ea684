"""Events as messages in a Slack channel."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from acme_devkit import web
from plughost_sdk import vai

MOST = 3000
"""Characters of one field; Slack takes a little more."""
REMEMBERED = 1000
delivered: OrderedDict[str, None] = OrderedDict()
"""What this process has posted: an event whose acknowledgement was lost is not posted twice by it."""


@dataclass
class Config:
    prefix: Annotated[str, "Goes before each message, such as the project's name."] = ""
    include_run: Annotated[bool, "Whether the gateway is asked for the run's status."] = False


def notify(event: dict[str, Any], context: vai.Context) -> None:
    if context.delivery_id in delivered:
        return
    text = message(event, context.config.prefix)
    subject = event.get("subject") or {}
    if context.config.include_run and subject.get("kind") == "run":
        run = context.gateway.get(f"/v1/runs/{quote(subject['id'], safe='')}")
        text += f"\nStatus: {_escaped(run.get('status'))}"
    web.send(context, context.secrets["slack_webhook"], {"Content-Type": "application/json"}, {"text": text})
    if context.delivery_id is not None:
        delivered[context.delivery_id] = None
        if len(delivered) > REMEMBERED:
            delivered.popitem(last=False)


def message(event: dict[str, Any], prefix: str = "") -> str:
    subject = event.get("subject") or {}
    lines = [f"{_escaped(event.get('type'))}: {_escaped(subject.get('kind'))} {_escaped(subject.get('id'))}"]
    summary = event.get("summary") or {}
    lines += [f"{_escaped(name).capitalize()}: {_escaped(value)}" for name, value in summary.items()]
    return "\n".join([f"{prefix} {lines[0]}".strip(), *lines[1:]])


def _escaped(value: Any) -> str:
    """As Slack wants text that is to be shown as it is: nobody is mentioned, nothing is a link."""
    return str(value)[:MOST].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
