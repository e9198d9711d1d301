"""Modal screens of the game: help and result."""

from typing import Any

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from resume_gym.apps.play.episode import PlayedEpisode
from resume_gym.support.printing import visible

_HELP = """\
The agent's instructions:

  {prompt}

You see more than an agent: the {noun} stays on the screen, and the form previews each call. An \
agent sees the {noun} at the start and when a tool shows it; after an edit it sees the changed \
lines. The first review is rewarded even if you do not need it.

A click or Enter copies the text of a line of the {noun} into the first field; Delete copies the \
whole line with its line break. All places where the field's text occurs are highlighted.

Undo removes the last turn and its reward. Agents cannot undo turns, so do not compare results of \
games with undone turns to results of agents. The record holds the number of undone turns.
"""


class Help(ModalScreen[None]):
    """Help screen of the game."""

    BINDINGS = [Binding("escape,f1,q", "dismiss", "Back")]  # noqa: RUF012

    def __init__(self, episode: PlayedEpisode) -> None:
        super().__init__()
        self._episode = episode

    def compose(self) -> ComposeResult:
        """Yield the widget with the help text."""
        with VerticalScroll(classes="dialog") as dialog:
            dialog.border_title = Text("How to play")
            dialog.border_subtitle = Text("Escape: back")
            session = self._episode.session
            text = _HELP.format(prompt=session.system_prompt, noun=session.noun)
            yield Static(text, markup=False)


class Ending(ModalScreen[str]):
    """Result screen with reward terms and verdict; returns the player's choice of an action."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "choose('look')", "Look at the page"),
        Binding("a", "choose('again')", "Ask again"),
        Binding("u,ctrl+b", "choose('undo')", "Undo the last turn"),
        Binding("n", "choose('next')", "Another task"),
        Binding("q", "choose('quit')", "Quit"),
    ]

    def __init__(self, episode: PlayedEpisode) -> None:
        super().__init__()
        self._episode = episode

    def compose(self) -> ComposeResult:
        """Yield the outcome, the buttons and the table of reward terms."""
        with VerticalScroll(classes="dialog") as dialog:
            dialog.border_title = Text("The end")
            yield Static(id="outcome", markup=False)
            with Horizontal(classes="choices"):
                yield Button("ask again (a)", compact=True, id="again", variant="primary")
                yield Button("look at the page (Escape)", compact=True, id="look")
                yield Button("undo (u)", compact=True, id="undo")
                yield Button("another task (n)", compact=True, id="next")
                yield Button("quit (q)", compact=True, id="quit")
            yield Static(id="terms", markup=False)

    def on_mount(self) -> None:
        """Show the outcome of the episode."""
        self.show()

    def show(self) -> None:
        """Update the outcome, which a judge call may have changed."""
        episode = self._episode
        failed = bool(episode.failure) and not episode.asking
        lines = [Text(episode.outcome(), "bold"), Text(self._situation())]
        if failed:
            lines.append(Text(visible(episode.failure), "bold red"))
        self.query_one("#outcome", Static).update(Text("\n").join(lines))
        self.query_one("#terms", Static).update(_table(episode.session))
        self.query_one("#again").display = failed
        (self.query_one("#again" if failed else "#look")).focus()

    def _situation(self) -> str:
        episode, session = self._episode, self._episode.session
        text = f"The task's weakness: {visible(session.task.weakness)}. "
        if episode.undone:
            text += f"Undone turns, not counted: {episode.undone}. "
        if episode.asking:
            return text + "The judge is being asked ..."
        if session.state.verdict:
            return text
        if episode.failure:
            return text + "The judge gave no verdict; you can ask again:"
        if session.needs_verdict:
            return text + "This environment has no judge."
        return text + "Nothing was changed, so no judge was asked."

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Close the screen with the action of the pressed button."""
        self.action_choose(event.button.id or "look")

    def action_choose(self, answer: str) -> None:
        """Close the screen with an answer; ignore "again" unless a judge call has failed."""
        if answer != "again" or self.query_one("#again").display:
            self.dismiss(answer)


def _table(session: Any) -> Table:
    """Return a table of reward terms with the judge's reasons."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    reasons = getattr(session.state.verdict, "reasons", None) or {}
    pending = session.needs_verdict
    for name, value in session.ledger.items():
        content = name in session.weights
        if not (value or content):  # keep grades of 0, since the judge gives reasons for them, too
            continue
        ungraded = content and pending
        style = "dim" if ungraded or not value else "green" if value > 0 else "red"
        amount = Text("?" if ungraded else f"{value:+.2f}", style)
        table.add_row(Text(visible(name)), amount, Text(visible(str(reasons.get(name, "")))))
    total = "" if not pending else " without the verdict"
    table.add_row(Text("reward", "bold"), Text(f"{session.reward:+.2f}", "bold"), Text(total))
    return table
