"""ainb's params and results, by the names they have on the wire. Unknown members are ignored."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from plughost.contracts.ainb.manifest import AinbManifest
from plughost.wire.base64_bytes import Octets
from plughost.wire.messages import NOTHING

U8 = Annotated[int, msgspec.Meta(ge=0, le=255)]
U16 = Annotated[int, msgspec.Meta(ge=0, le=65535)]
U64 = Annotated[int, msgspec.Meta(ge=0)]
I63 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""What the system takes for a place in a file."""

# Host → plugin


class InitParams(msgspec.Struct):
    manifest_path: str
    granted_capabilities: list[str]
    abi_version: int


class InitResult(msgspec.Struct):
    """Real plugins send name and version alone; the contract wants the manifest and the ABI too."""

    name: str | None = None
    version: str | None = None
    abi_version: int | None = None
    manifest: AinbManifest | None = None


class Viewport(msgspec.Struct, frozen=True):
    width: U16
    height: U16


class RenderParams(msgspec.Struct):
    viewport: Viewport
    generation: U64 = 0


class Coord(msgspec.Struct, frozen=True, gc=False):
    x: U16
    y: U16


class Color(msgspec.Struct, frozen=True, gc=False):
    r: U8
    g: U8
    b: U8


class Cell(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    symbol: str
    fg: Color | None = None
    bg: Color | None = None
    modifier: U16 = 0


class WireBuffer(msgspec.Struct):
    """Sparse: only what is painted. Of a cell that is painted twice, the last counts."""

    width: U16
    height: U16
    cells: list[tuple[Coord, Cell]] = []

    def inside(self) -> list[tuple[Coord, Cell]]:
        """The cells that lie within it."""
        return [cell for cell in self.cells if cell[0].x < self.width and cell[0].y < self.height]


class RenderResult(msgspec.Struct):
    buffer: WireBuffer
    redraw: bool = False
    captures_text: bool = False


class _Code(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Char(_Code, frozen=True, tag="char"):
    ch: Annotated[str, msgspec.Meta(min_length=1, max_length=1)]


class F(_Code, frozen=True, tag="f"):
    n: Annotated[int, msgspec.Meta(ge=1, le=255)]


class Enter(_Code, frozen=True, tag="enter"): ...


class Tab(_Code, frozen=True, tag="tab"): ...


class BackTab(_Code, frozen=True, tag="back_tab"): ...


class Esc(_Code, frozen=True, tag="esc"): ...


class Backspace(_Code, frozen=True, tag="backspace"): ...


class Delete(_Code, frozen=True, tag="delete"): ...


class Up(_Code, frozen=True, tag="up"): ...


class Down(_Code, frozen=True, tag="down"): ...


class Left(_Code, frozen=True, tag="left"): ...


class Right(_Code, frozen=True, tag="right"): ...


class Home(_Code, frozen=True, tag="home"): ...


class End(_Code, frozen=True, tag="end"): ...


class PageUp(_Code, frozen=True, tag="page_up"): ...


class PageDown(_Code, frozen=True, tag="page_down"): ...


KeyCode = (
    Char | F | Enter | Tab | BackTab | Esc | Backspace | Delete
    | Up | Down | Left | Right | Home | End | PageUp | PageDown
)  # fmt: skip

SHIFT, CTRL, ALT, SUPER = 1, 2, 4, 8
BOLD, DIM, ITALIC, UNDERLINED, REVERSED, REVERSED_TOO = 1, 2, 4, 8, 16, 64
"""Style bits. Real hosts reverse by 16, the style library that the contract refers to by 64: both count."""


class KeyEvent(msgspec.Struct, frozen=True):
    code: KeyCode
    mods: U8 = 0
    kind: Literal["press", "repeat", "release"] = "press"


class HandleKeyParams(msgspec.Struct):
    screen_id: str
    key: KeyEvent
    generation: U64


class Button(msgspec.Struct, frozen=True):
    type: Literal["left", "right", "middle"]


class _Kind(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Pressed(_Kind, frozen=True, tag="down"):
    button: Button


class Released(_Kind, frozen=True, tag="up"):
    button: Button


class Dragged(_Kind, frozen=True, tag="drag"):
    button: Button


class Moved(_Kind, frozen=True, tag="moved"): ...


class ScrollUp(_Kind, frozen=True, tag="scroll_up"): ...


class ScrollDown(_Kind, frozen=True, tag="scroll_down"): ...


class ScrollLeft(_Kind, frozen=True, tag="scroll_left"): ...


class ScrollRight(_Kind, frozen=True, tag="scroll_right"): ...


MouseKind = Pressed | Released | Dragged | Moved | ScrollUp | ScrollDown | ScrollLeft | ScrollRight


class MouseEvent(msgspec.Struct, frozen=True):
    """Where and what, in cells of the plugin's own viewport."""

    kind: MouseKind
    col: U16
    row: U16
    mods: U8 = 0


class HandleMouseParams(msgspec.Struct):
    """Newer hosts send it; a plugin that does not know it ignores it, as any unknown notification."""

    screen_id: str
    mouse: MouseEvent
    generation: U64


class HandleEventParams(msgspec.Struct):
    topic: str
    payload: Octets


class CliDispatchParams(msgspec.Struct):
    namespace: str
    argv: list[str]


class CliDispatchResult(msgspec.Struct):
    stdout: Octets
    stderr: Octets
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


# Plugin → host


class TopicParams(msgspec.Struct):
    topic: str


class SnapshotPublishParams(msgspec.Struct):
    topic: str
    payload: Octets


class ActionInvokeParams(msgspec.Struct):
    action: str
    payload: Octets
    timeout_ms: U64 = 0


class LogParams(msgspec.Struct):
    level: str
    message: str
    fields: msgspec.Raw = NOTHING


class PathParams(msgspec.Struct):
    path: str


class ReadFileParams(PathParams):
    """`offset` and `length` ask for a part; a host that does not know them answers with the whole file."""

    offset: I63 = 0
    length: I63 | None = None


class NetworkFetchParams(msgspec.Struct):
    url: str
    method: str = ""
    body: Octets | None = None
    headers: list[tuple[str, str]] = []
