"""Issues of a Jira that fit some words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from acme_devkit import web
from plughost_sdk import vai


@dataclass
class Config:
    base_url: Annotated[
        str, "Where Jira is, such as https://acme.atlassian.net.", {"pattern": "^https?://[^/?#]+"}
    ]
    max_results: Annotated[int, "Issues at most.", {"minimum": 1, "maximum": 100}] = 10


@dataclass
class Issue:
    key: str
    summary: str = ""
    status: str = ""


@dataclass
class Found:
    issues: list[Issue]


def search(context: vai.Context, query: str, project: str | None) -> vai.Result:
    config: Config = context.config
    asked = {"jql": jql(query, project), "maxResults": config.max_results, "fields": "summary,status"}
    url = f"{config.base_url.rstrip('/')}/rest/api/2/search?{urlencode(asked)}"
    headers = {"Authorization": f"Bearer {context.secrets['jira_token']}", "Accept": "application/json"}
    issues = read(web.send(context, url, headers))[: config.max_results]
    count = len(issues)
    return vai.Result(f"Found {count} {'issue' if count == 1 else 'issues'}.", Found(issues))


def jql(query: str, project: str | None) -> str:
    """Jira's query language; what comes from a model stays inside its quotes."""
    conditions = [f"project = {_quoted(project)}"] if project else []
    return " AND ".join([*conditions, f"text ~ {_quoted(query)}"]) + " ORDER BY updated DESC"


def _quoted(words: str) -> str:
    plain = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read(body: bytes) -> list[Issue]:
    try:
        told = json.loads(body)["issues"]
        return [Issue(one["key"], _text(one, "summary"), _text(one, "status")) for one in told]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise vai.Failed("it answered with something that is no list of issues") from None


def _text(issue: dict, name: str) -> str:
    """A field as text: of a status its name, of none nothing."""
    value = issue.get("fields", {}).get(name)
    return str(value.get("name", "") if isinstance(value, dict) else value or "")
