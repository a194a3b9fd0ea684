"""A function of a package as its host knows it: an id, a kind, and what it asks for."""

from __future__ import annotations

from plughost_sdk.handlers import Handler
from plughost_sdk.hooks import Hook
from plughost_sdk.vai.outcome import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from plughost_sdk.vai.context import Context
    from plughost_sdk.vai.signature import Signature

COMMON = {
    "display_name", "description", "execution_class", "timeout_ms", "max_concurrency", "config", "network",
    "filesystem", "scopes", "secrets",
}  # fmt: skip
OWN = {
    "tool": {"effect_class", "streaming", "output"},
    "hook": {"subscribes_to"},
    "compactor": {"target_context", "supports_pinned_items"},
    "harness": {"mode", "fidelity", "supports"},
}
"""What the decorators take; `generate` writes it into the manifest."""
AROUND = ("export_id", "context", "config", "secrets")
"""What of a body is the context's."""


class Export:
    def __init__(self, kind: str, export_id: str, handler: Handler, options: dict[str, Any]) -> None:
        self.kind = kind
        self.id = export_id
        self.handler = handler
        self.options = options
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """Read once, and only for what needs types: they take longer to import than the rest."""
        if self._signature is None:
            from plughost_sdk.vai.signature import Signature

            self._signature = Signature(self.handler.function, self.options)
        return self._signature

    def call(self, body: dict[str, Any], context: Context) -> Any:
        if self.options.get("config") is not None:
            context.config = self.signature.config_from(context.config)
        if self.kind == "tool":
            return self.handler.function(**self.signature.arguments(body.get("input"), context))
        given = body.get("event") if self.kind == "hook" else _without(body, AROUND)
        return self.handler.function(*(given, context)[: self.handler.most])

    def as_json(self, value: Any) -> Any:
        """Dataclasses and the like as what JSON has words for."""
        if self.kind != "tool" or isinstance(value, (str, int, float, bool, type(None))):
            return value
        from plughost_sdk.vai.convert import to_json

        if isinstance(value, Result):
            value.structured_output = to_json(value.structured_output)
            return value
        return to_json(value)


def _without(body: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


class _AnyNumber(Handler):
    """A tool's parameters are its input's members: there may be many."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.least, self.most = 0, 0


class Exported(Hook):
    """`@plugin.tool`, `@plugin.tool("another_id")`, `@plugin.tool(network="egress", secrets=["token"])`"""

    _options: dict[str, Any]

    def __init__(self, *offered: str, many: bool = False) -> None:
        super().__init__(*offered, many=many)
        self._options = {}

    def __get__(self, plugin: Any, owner: type | None = None) -> Self:
        bound = super().__get__(plugin, owner)
        bound._options = self._options
        return bound

    if TYPE_CHECKING:

        def __call__(self, given: Any = None, /, **options: Any) -> Any: ...
    else:

        def __call__(self, given=None, /, **options):
            if unknown := options.keys() - COMMON - OWN[self._name]:
                known = ", ".join(sorted(COMMON | OWN[self._name]))
                told = f"@plugin.{self._name} has no {', '.join(sorted(unknown))}"
                raise TypeError(f"{told}; it takes {known}")
            bound = type(self)(*self._offered)
            bound._name, bound._plugin, bound._options = self._name, self._plugin, options
            if callable(given):
                return bound._hook(self._named(getattr(given, "__name__", None)), given)
            if given is not None:
                self._named(given)
            return lambda function: bound._hook(given or function.__name__, function)

    def _hook(self, name: str, function: Any) -> Any:
        if self._plugin is None or not callable(function):
            return super()._hook(name, function)
        spelled = self._spelled(name)
        tool = self._name == "tool"
        handler = _AnyNumber(function) if tool else Handler(function, spelled, self._offered)
        add: Any = self._plugin
        add._export(Export(self._name, name, handler, self._options), spelled)
        return function
