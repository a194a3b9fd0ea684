"""The messages of ainb: params and results, with the field names of the wire. Unknown members are ignored."""

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
"""The range of a file offset in the operating system."""

# Host → plugin


class InitParams(msgspec.Struct):
    """The params of `plugin/init`."""

    manifest_path: str
    granted_capabilities: list[str]
    abi_version: int


class InitResult(msgspec.Struct):
    """The result of `plugin/init`. Real plugins send only name and version; the contract also wants manifest
    and ABI."""

    name: str | None = None
    version: str | None = None
    abi_version: int | None = None
    manifest: AinbManifest | None = None


class Viewport(msgspec.Struct, frozen=True):
    """The size of the screen in cells, in the params of `plugin/render`."""

    width: U16
    height: U16


class RenderParams(msgspec.Struct):
    """The params of `plugin/render`."""

    viewport: Viewport
    generation: U64 = 0


class Coord(msgspec.Struct, frozen=True, gc=False):
    """The position of a cell in the buffer of `plugin/render`."""

    x: U16
    y: U16


class Color(msgspec.Struct, frozen=True, gc=False):
    """An RGB colour of a cell in the buffer of `plugin/render`."""

    r: U8
    g: U8
    b: U8


class Cell(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A character and its style in the buffer of `plugin/render`."""

    symbol: str
    fg: Color | None = None
    bg: Color | None = None
    modifier: U16 = 0


class WireBuffer(msgspec.Struct):
    """The sparse cell buffer in the result of `plugin/render`: only painted cells; the last of duplicates
    counts."""

    width: U16
    height: U16
    cells: list[tuple[Coord, Cell]] = []

    def inside(self) -> list[tuple[Coord, Cell]]:
        """The cells within the buffer's width and height."""
        return [cell for cell in self.cells if cell[0].x < self.width and cell[0].y < self.height]


class RenderResult(msgspec.Struct):
    """The result of `plugin/render`."""

    buffer: WireBuffer
    redraw: bool = False
    captures_text: bool = False


class _Code(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Char(_Code, frozen=True, tag="char"):
    """The key code of a printable character in `plugin/handle_key`."""

    ch: Annotated[str, msgspec.Meta(min_length=1, max_length=1)]


class F(_Code, frozen=True, tag="f"):
    """The key code of a function key in `plugin/handle_key`."""

    n: Annotated[int, msgspec.Meta(ge=1, le=255)]


class Enter(_Code, frozen=True, tag="enter"):
    """The key code `enter` in `plugin/handle_key`."""


class Tab(_Code, frozen=True, tag="tab"):
    """The key code `tab` in `plugin/handle_key`."""


class BackTab(_Code, frozen=True, tag="back_tab"):
    """The key code `back_tab` in `plugin/handle_key`."""


class Esc(_Code, frozen=True, tag="esc"):
    """The key code `esc` in `plugin/handle_key`."""


class Backspace(_Code, frozen=True, tag="backspace"):
    """The key code `backspace` in `plugin/handle_key`."""


class Delete(_Code, frozen=True, tag="delete"):
    """The key code `delete` in `plugin/handle_key`."""


class Up(_Code, frozen=True, tag="up"):
    """The key code `up` in `plugin/handle_key`."""


class Down(_Code, frozen=True, tag="down"):
    """The key code `down` in `plugin/handle_key`."""


class Left(_Code, frozen=True, tag="left"):
    """The key code `left` in `plugin/handle_key`."""


class Right(_Code, frozen=True, tag="right"):
    """The key code `right` in `plugin/handle_key`."""


class Home(_Code, frozen=True, tag="home"):
    """The key code `home` in `plugin/handle_key`."""


class End(_Code, frozen=True, tag="end"):
    """The key code `end` in `plugin/handle_key`."""


class PageUp(_Code, frozen=True, tag="page_up"):
    """The key code `page_up` in `plugin/handle_key`."""


class PageDown(_Code, frozen=True, tag="page_down"):
    """The key code `page_down` in `plugin/handle_key`."""


KeyCode = (
    Char | F | Enter | Tab | BackTab | Esc | Backspace | Delete
    | Up | Down | Left | Right | Home | End | PageUp | PageDown
)  # fmt: skip

SHIFT, CTRL, ALT, SUPER = 1, 2, 4, 8
BOLD, DIM, ITALIC, UNDERLINED, REVERSED, REVERSED_TOO = 1, 2, 4, 8, 16, 64
"""Style bits. Real hosts reverse by 16, the style library that the contract refers to by 64: both count."""


class KeyEvent(msgspec.Struct, frozen=True):
    """A key with its modifiers, in the params of `plugin/handle_key`."""

    code: KeyCode
    mods: U8 = 0
    kind: Literal["press", "repeat", "release"] = "press"


class HandleKeyParams(msgspec.Struct):
    """The params of the notification `plugin/handle_key`."""

    screen_id: str
    key: KeyEvent
    generation: U64


class Button(msgspec.Struct, frozen=True):
    """A mouse button in `plugin/handle_mouse`."""

    type: Literal["left", "right", "middle"]


class _Kind(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Pressed(_Kind, frozen=True, tag="down"):
    """The mouse event `down` in `plugin/handle_mouse`."""

    button: Button


class Released(_Kind, frozen=True, tag="up"):
    """The mouse event `up` in `plugin/handle_mouse`."""

    button: Button


class Dragged(_Kind, frozen=True, tag="drag"):
    """The mouse event `drag` in `plugin/handle_mouse`."""

    button: Button


class Moved(_Kind, frozen=True, tag="moved"):
    """The mouse event `moved` in `plugin/handle_mouse`."""


class ScrollUp(_Kind, frozen=True, tag="scroll_up"):
    """The mouse event `scroll_up` in `plugin/handle_mouse`."""


class ScrollDown(_Kind, frozen=True, tag="scroll_down"):
    """The mouse event `scroll_down` in `plugin/handle_mouse`."""


class ScrollLeft(_Kind, frozen=True, tag="scroll_left"):
    """The mouse event `scroll_left` in `plugin/handle_mouse`."""


class ScrollRight(_Kind, frozen=True, tag="scroll_right"):
    """The mouse event `scroll_right` in `plugin/handle_mouse`."""


MouseKind = Pressed | Released | Dragged | Moved | ScrollUp | ScrollDown | ScrollLeft | ScrollRight


class MouseEvent(msgspec.Struct, frozen=True):
    """A mouse event and its cell in the plugin's own viewport, in the params of `plugin/handle_mouse`."""

    kind: MouseKind
    col: U16
    row: U16
    mods: U8 = 0


class HandleMouseParams(msgspec.Struct):
    """The params of the notification `plugin/handle_mouse`, which only newer hosts send; older plugins ignore
    it."""

    screen_id: str
    mouse: MouseEvent
    generation: U64


class HandleEventParams(msgspec.Struct):
    """The params of the notification `plugin/handle_event`."""

    topic: str
    payload: Octets


class CliDispatchParams(msgspec.Struct):
    """The params of `plugin/cli_dispatch`."""

    namespace: str
    argv: list[str]


class CliDispatchResult(msgspec.Struct):
    """The result of `plugin/cli_dispatch`."""

    stdout: Octets
    stderr: Octets
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


# Plugin → host


class TopicParams(msgspec.Struct):
    """The params of `host/snapshot/get` and `host/snapshot/subscribe`."""

    topic: str


class SnapshotPublishParams(msgspec.Struct):
    """The params of the notification `host/snapshot/publish`."""

    topic: str
    payload: Octets


class ActionInvokeParams(msgspec.Struct):
    """The params of `host/action/invoke`."""

    action: str
    payload: Octets
    timeout_ms: U64 = 0


class LogParams(msgspec.Struct):
    """The params of the notification `host/log`."""

    level: str
    message: str
    fields: msgspec.Raw = NOTHING


class PathParams(msgspec.Struct):
    """The params of `host/fs/read_dir`."""

    path: str


class ReadFileParams(PathParams):
    """The params of `host/fs/read_file`. A host that does not know `offset` and `length` answers with the
    whole file."""

    offset: I63 = 0
    length: I63 | None = None


class NetworkFetchParams(msgspec.Struct):
    """The params of `host/network/fetch`."""

    url: str
    method: str = ""
    body: Octets | None = None
    headers: list[tuple[str, str]] = []
