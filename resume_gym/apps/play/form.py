"""Form for the tools of a session, generated from their JSON schemas."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input, Static, TabbedContent, TabPane, TextArea

from resume_gym.apps.play.episode import PlayedEpisode
from resume_gym.support.printing import visible

_KEYS = {"review": " ^r", "submit": " ^d"}


class TextField(TextArea):
    """Text area for one argument; shows control characters as visible symbols."""

    def get_line(self, line_index: int) -> Text:
        """Return a line of the text with its control characters as visible symbols."""
        line = super().get_line(line_index)
        return Text(visible(line.plain), end="", no_wrap=True)


class Fields(Horizontal):
    """Input widgets for the arguments of one tool: text areas, then number inputs."""

    def __init__(self, function: Mapping[str, Any]) -> None:
        super().__init__(classes="fields")
        self._required: list[str] = function["parameters"]["required"]
        self._defaults: dict[str, int] = {}
        self.areas: dict[str, TextField] = {}
        self.inputs: dict[str, Input] = {}
        for name, kind in function["parameters"]["properties"].items():
            widget: TextField | Input
            if kind["type"] == "integer":
                default = str(kind.get("default", ""))
                self.inputs[name] = widget = Input(default, type="integer", classes="number")
                if name not in self._required and "default" in kind:
                    self._defaults[name] = kind["default"]
            else:
                self.areas[name] = widget = TextField(highlight_cursor_line=False)
                widget.placeholder = Content(visible(kind.get("description", "")))
            widget.border_title = Text(visible(name))

    def compose(self) -> ComposeResult:
        """Yield the text areas, then the number inputs, both in the order of the tool's schema."""
        yield from self.areas.values()
        yield from self.inputs.values()

    def arguments(self) -> dict[str, Any]:
        """Return the entered arguments, except optional ones that are empty or have the default."""
        texts = {name: area.text for name, area in self.areas.items()}
        numbers = {name: _integer(number.value) for name, number in self.inputs.items()}
        return {
            name: value
            for name, value in {**texts, **numbers}.items()
            if name in self._required or value not in ("", None, self._defaults.get(name))
        }

    def clear(self) -> None:
        """Reset all fields to their defaults."""
        for area in self.areas.values():
            area.text = ""
        for name, number in self.inputs.items():
            number.value = str(self._defaults.get(name, ""))


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


class ToolForm(Vertical):
    """Form with fields and buttons for all tools, and a preview of the entered call."""

    class Called(Message):
        """Message that requests a tool call."""

        def __init__(self, tool: str, arguments: Mapping[str, object]) -> None:
            self.tool, self.arguments = tool, arguments
            super().__init__()

    class Sought(Message):
        """Message that the user has changed the argument that locates the edit in the document."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, episode: PlayedEpisode) -> None:
        super().__init__(id="form")
        self._episode = episode
        self._fields = {
            name: Fields(function)
            for name, function in episode.tools.items()
            if function["parameters"]["properties"]
        }
        self._message = ("", False)
        self._status = Static("", id="status", markup=False)
        self._call = Button("", variant="primary", compact=True, id="call", action="app.call")

    def compose(self) -> ComposeResult:
        """Yield a tab for each tool with arguments and a button for each tool without arguments."""
        # widget IDs hold the tools' positions, since tool names may be invalid as widget IDs
        if self._fields:
            with TabbedContent(id="tools", classes="one" if len(self._fields) == 1 else ""):
                for number, (name, fields) in enumerate(self._fields.items()):
                    with TabPane(Content(visible(name)), id=f"tool-{number}"):
                        yield fields
        yield self._status
        with Horizontal(id="buttons"):
            if self._fields:
                yield self._call
            for name in [name for name in self._episode.tools if name not in self._fields]:
                label = Content(f"{visible(name)}{_KEYS.get(name, '')}")
                yield Button(label, compact=True, action=f"app.plain({name!r})")
            yield Button("undo ^b", compact=True, id="undo", action="app.undo")

    def on_mount(self) -> None:
        """Show the active tool's name on the call button, and the tool's description."""
        self._changed()

    @property
    def tool(self) -> str:
        """Name of the tool on the active tab; empty if no tool has arguments."""
        if not self._fields:
            return ""
        # no tab is active until Textual has mounted the tabs
        active = self.query_one("#tools", TabbedContent).active
        return list(self._fields)[int(active.removeprefix("tool-") or 0)]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments entered for the active tool."""
        return self._fields[self.tool].arguments() if self.tool else {}

    def fill(self, text: str) -> None:
        """Fill the active tool's field that locates the edit, and focus the field after it."""
        anchor = self._episode.anchor(self.tool) if self.tool else ""
        if not anchor or self.disabled:
            return
        areas = self._fields[self.tool].areas
        areas[anchor].text = text
        areas[anchor].move_cursor(areas[anchor].document.end)
        following = list(areas)[list(areas).index(anchor) + 1 :]
        areas[following[0] if following else anchor].focus()

    def call(self) -> None:
        """Request a call of the active tool, unless the call would fail."""
        if not self.tool or self.disabled:
            return
        works, told = self._episode.preview(self.tool, self.arguments)
        if works:
            self.post_message(self.Called(self.tool, self.arguments))
        else:
            self.tell(f"not called, so no turn is used: {told}", bad=True)

    def clear(self) -> None:
        """Reset the fields of all tools."""
        for fields in self._fields.values():
            fields.clear()

    def tell(self, text: str, bad: bool = False) -> None:
        """Show a message below the fields until the user types the next call."""
        self._message = (text, bad)
        self._say(text, bad)

    def _say(self, text: str, bad: bool | None) -> None:
        self._status.set_class(bad is True, "bad")
        self._status.set_class(bad is False, "good")
        self._status.update(Content(visible(text)))

    @on(TextArea.Changed)
    @on(Input.Changed)
    @on(TabbedContent.TabActivated)
    def _changed(self) -> None:
        if not self.tool:
            return
        name, arguments = self.tool, self.arguments
        self._call.label = Content(f"{visible(name)} ^s")
        anchor = self._episode.anchor(name)
        text = arguments.get(anchor, "")
        self.post_message(self.Sought(text))
        idle = not text or self._episode.session.done
        area = self._fields[name].areas.get(anchor)
        if area is not None:
            count = len(self._episode.spans(text))
            times = {0: "nowhere", 1: "once"}.get(count, f"{count} times")
            area.border_subtitle = Text("" if idle else f"occurs {times}")
            area.set_class(not idle and not count, "missing")
        if idle:  # keep the last message; without one, describe the tool
            description = self._episode.tools[name]["description"]
            self._say(*self._message if self._message[0] else (description, None))
            return
        self._message = ("", False)
        works, told = self._episode.preview(name, arguments)
        self._say(f"this {'works' if works else 'fails'}: {told}", not works)

    @on(Input.Submitted)
    def _entered(self) -> None:
        self.call()
