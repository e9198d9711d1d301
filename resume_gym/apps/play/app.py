"""Textual application of `resume-gym play`: meters, document, brief, last turn and tool form."""

from typing import Any

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from resume_gym.apps.play.episode import PlayedEpisode
from resume_gym.apps.play.form import ToolForm
from resume_gym.apps.play.page import Page, changed_lines
from resume_gym.apps.play.screens import Ending, Help
from resume_gym.episode.render import REPLY_STYLES, last_reply
from resume_gym.support.printing import visible


class _GameScreen(Screen[None]):
    """Screen whose Tab key visits the page, then the form, then the read-only panes."""

    @property
    def focus_chain(self) -> list[Widget]:
        """Widgets in the order in which Tab visits them."""
        return sorted(super().focus_chain, key=lambda widget: widget.id in ("given", "turn"))


class PlayApp(App[str]):
    """Textual application that plays one episode."""

    TITLE = "Resume Gym"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    CSS_PATH = "app.tcss"
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+s", "call", "Call", show=False, priority=True),
        Binding("ctrl+r", "plain('review')", "Review", show=False, priority=True),
        Binding("ctrl+d", "plain('submit')", "Submit", show=False, priority=True),
        Binding("ctrl+b", "undo", "Undo turn", show=False, priority=True),
        Binding("ctrl+o", "pane", "Pane", priority=True),
        Binding("ctrl+g", "ending", "Result", priority=True),
        Binding("f1", "help", "Help", priority=True),
        Binding("ctrl+t", "light", "Light/dark", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(self, episode: PlayedEpisode) -> None:
        super().__init__()
        self.episode = episode

    def get_default_screen(self) -> Screen[None]:
        """Return the screen on which the episode is played."""
        return _GameScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Yield the widgets of the game's screen."""
        heading, text = self.episode.sources
        session = self.episode.session
        yield Static(id="meters", markup=False)
        with Horizontal(id="panes"):
            page = Page(session.rules, id="page")
            page.border_title = Text(session.noun)
            yield page
            with Vertical(id="side"):
                with VerticalScroll(id="given") as given:
                    given.border_title = Text(visible(heading).lower())
                    yield Static(visible(text), markup=False)
                with VerticalScroll(id="turn") as turn:
                    turn.border_title = Text("last turn")
                    yield Static(id="reply", markup=False)
        yield ToolForm(self.episode)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Show the document and focus its widget."""
        self._show()
        self.query_one(Page).focus()

    def _show_meters(self) -> None:
        """Show turns, lines, edits, reward and task ID in one row, cut at the terminal's width."""
        session = self.episode.session
        state, rules = session.state, session.rules
        row = Text(no_wrap=True, overflow="ellipsis")
        for name, value, limit in (
            ("turn", state.turns, rules.max_turns),
            ("lines", state.document.lines, rules.page_lines),
        ):
            row.append(f"{name} {value}/{limit}  ", "bold red" if value > limit else "")
        failed = f" ({state.failed_edits} failed)" if state.failed_edits else ""
        row.append(f"edits {state.edits}{failed}  reward {state.reward:+.2f}", "bold")
        row.append(f"  {visible(session.task.task_id)}", "dim")
        self.query_one("#meters", Static).update(row)

    def _show(self) -> None:
        """Update all widgets from the state of the session."""
        session = self.episode.session
        reply, diff = Text(), ""
        if session.state.transcript:
            step = session.state.transcript[-1][1]
            diff = step.observation if "edit" in step.ledger else ""
            for line in last_reply(session):
                reply.append(f"{visible(line)}\n", REPLY_STYLES.get(line[:1], "dim"))
            # leave out the reward term `layout`, which the result screen shows
            terms = {name: value for name, value in step.ledger.items() if name != "layout"}
            rewards = ", ".join(f"{name} {value:+.2f}" for name, value in terms.items() if value)
            reply.append(rewards, "bold")
        else:
            reply.append("Nothing yet. F1 explains how to play.", "dim")
        self.query_one("#reply", Static).update(reply)
        self.query_one(Page).show(session.text, changed_lines(diff))
        self._show_meters()
        self.query_one(ToolForm).disabled = session.done
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is available; Textual hides keys of unavailable actions."""
        # the app's key bindings with priority also fire while a modal screen is open
        modal = len(self.screen_stack) > 1
        if modal and action in ("call", "plain", "undo", "pane", "ending", "help"):
            return False
        session = self.episode.session
        if action == "plain":
            tool = self.episode.tools.get(str(parameters[0]))
            return tool is not None and not tool["parameters"]["properties"] and not session.done
        available = {
            "call": not session.done,
            "undo": session.turns > 0,
            "pane": self.screen.has_class("-narrow"),
            "ending": session.done,
        }
        return available.get(action, True)

    def action_call(self) -> None:
        """Call the tool on the active tab of the tool form."""
        self.query_one(ToolForm).call()

    def action_plain(self, tool: str) -> None:
        """Call a tool that takes no arguments."""
        self._turn(tool, {})

    def action_undo(self) -> None:
        """Undo the last turn."""
        if self.episode.undo():
            self.query_one(ToolForm).tell("The last turn is undone; it does not count.")
            self._show()

    def action_pane(self) -> None:
        """On a narrow terminal, switch between the document and the other panes."""
        self.query_one("#panes").toggle_class("side")

    def action_help(self) -> None:
        """Open the help screen."""
        self.push_screen(Help(self.episode))

    def action_light(self) -> None:
        """Toggle between the light and the dark theme."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_ending(self) -> None:
        """Open the result screen; ask the judge if the episode still needs a verdict."""
        session = self.episode.session
        ask = session.needs_verdict and self.episode.env.judge is not None
        # do not retry a failed judge call: the result screen has a button for a retry
        if ask and not self.episode.failure and not self.episode.asking:
            self._ask()
        self.push_screen(Ending(self.episode), self._chosen)

    def _chosen(self, answer: str | None) -> None:
        if answer == "again":
            self._ask()
            self.action_ending()
        elif answer == "undo":
            self.action_undo()
        elif answer in ("next", "quit"):
            self.exit(answer)

    @work(exclusive=True)
    async def _ask(self) -> None:
        await self.episode.ask()
        self._show_meters()
        # the player may have closed the result screen during the judge call
        if isinstance(self.screen, Ending) and self.screen.is_mounted:
            self.screen.show()

    @on(ToolForm.Called)
    def _called(self, event: ToolForm.Called) -> None:
        self._turn(event.tool, event.arguments)

    def _turn(self, tool: str, arguments: Any) -> None:
        step = self.episode.call(tool, arguments)
        form = self.query_one(ToolForm)
        if step.error == "none":
            form.clear()
            form.tell("" if step.done else f"{tool}: {step.reward:+.2f}")
        else:
            # keep the form's input, so that the player can correct the failed call
            error = step.observation.partition("\n")[0]
            form.tell(f"{error} ({step.reward:+.2f})", bad=True)
        self._show()
        if step.done:
            self.action_ending()
        elif step.error == "none":
            self.query_one(Page).focus()

    @on(ToolForm.Sought)
    def _sought(self, event: ToolForm.Sought) -> None:
        self.query_one(Page).mark(self.episode.spans(event.text))

    @on(Page.Picked)
    def _picked(self, event: Page.Picked) -> None:
        self.query_one(ToolForm).fill(event.text)
