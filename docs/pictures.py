"""Make the pictures of the documentation; `make pictures` plays the episodes and runs this script.

    python docs/pictures.py runs/nano runs/nano-held-out benchmarks/results/main_job-MACHINE.json

Requires `tests` on the module path, which locates Chromium.
"""

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import gymnasium as gym
from components import chromium
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

from resume_gym import tool_call
from resume_gym.agents import make_agent
from resume_gym.agents.edit_kinds import HARMFUL, OTHER, USEFUL, USELESS
from resume_gym.apps.plot.plot import plot
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.apps.viewer.rows import EpisodeRow
from resume_gym.apps.viewer.server import serve
from resume_gym.figures.style import BLUE, GREEN, GREY, RED, SKY, save, step_panels, styled

SIZE = (1104, 690)
SCALE = 1.16
"""Pixels of the picture for each of the page: what is 1280 wide is legible at README width."""
COLUMNS = 116
"""Width of the terminal in characters."""

DOCS = Path(__file__).parent
PLAYED = "mini-train-0-000005"
ACTIONS = (
    tool_call("review"),
    tool_call("str_replace", old="Evaluating capital", new="Evaluated capital"),
    tool_call("str_replace", old="Performed audits of", new="Audited"),
)


def main() -> None:
    """Make all pictures beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("evaluation", type=Path, help="what `resume-gym eval --out` has written")
    parser.add_argument("matrix", type=Path, help="result file of `benchmarks/main_job.py`")
    options = parser.parse_args()
    episode()
    plots(options.run, ["training"])
    plots(options.evaluation, ["weaknesses"])
    kinds(json.loads(options.matrix.read_text())["repetitions"]["steps"]["aipo"])
    with launched() as browser:
        viewer(browser, options.run)
        terminal(browser)


def episode() -> None:
    """An episode of the careful agent, one frame for each turn; the page is too long at first."""
    env = gym.make("ResumeEditMini-v0", page_width=100, render_mode="rgb_array")
    env.reset(options={"task_id": "mini-train-0-000055"})
    agent, session = make_agent("careful"), env.unwrapped.session
    frames = [env.render()]
    while not session.state.done:
        env.step(agent(session))
        frames.append(env.render())
    first, *others = map(Image.fromarray, frames)
    waits = [2500] * len(others) + [6000]
    first.save(DOCS / "episode.gif", append_images=others, duration=waits, loop=0)


def plots(folder: Path, names: list[str]) -> None:
    """Draw the figures of a run or an evaluation, and copy the named ones beside this file."""
    with TemporaryDirectory() as drawn:
        plot([folder], Path(drawn), ["png"])
        for name in names:
            shutil.copy(Path(drawn) / f"{name}.png", DOCS)


def kinds(steps: list[dict[str, Any]]) -> None:
    """Draw the edits of each kind an episode, their shares and the reward, over the steps."""
    numbers = range(1, len(steps) + 1)
    named = {
        "repairs": (USEFUL, GREEN),
        "useless edits": (USELESS, GREY),
        "harmful edits": (HARMFUL, RED),
        "others": (OTHER, SKY),
    }
    made = {
        name: [sum(step["edits by kind"].get(kind, 0.0) for kind in group) for step in steps]
        for name, (group, _) in named.items()
    }
    total = [sum(one) or 1.0 for one in zip(*made.values(), strict=True)]
    titles = "successful edits an episode", "share of the edits, in percent", "reward in training"
    with styled():
        figure, (counts, shares, reward) = step_panels("What training teaches", titles, 3)
        for name, values in made.items():
            colour = named[name][1]
            counts.plot(numbers, values, color=colour, label=name)
            percent = [100 * n / of for n, of in zip(values, total, strict=True)]
            shares.plot(numbers, percent, color=colour)
        reward.plot(numbers, [step["reward"] for step in steps], color=BLUE)
        for axes in (counts, shares):
            axes.set_ylim(bottom=0)
        counts.legend(fontsize=7)
        save(figure, DOCS / "kinds.png")


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        yield browser
        browser.close()


def viewer(browser: Browser, folder: Path) -> None:
    """The last step's best episode: what it earned, why, and its first turns."""
    results = FolderContents(folder)
    results.refresh()
    with serve(results, 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(
            viewport={"width": SIZE[0], "height": SIZE[1]},
            device_scale_factor=SCALE,
            color_scheme="light",
        )
        page.goto(f"http://127.0.0.1:{server.server_port}/#/episode/{_best(results.rows)}")
        page.wait_for_selector(".beside .turn")
        page.evaluate("document.querySelector('.beside').scrollIntoView({ behavior: 'instant' })")
        page.screenshot(path=DOCS / "viewer.png")
        page.close()
        server.shutdown()


def _best(rows: list[EpisodeRow]) -> int:
    """The number of the episode with the highest reward among those of the last step."""
    graded = [number for number, row in enumerate(rows) if row.reward is not None]
    if not graded:
        raise SystemExit("pictures: expected a folder with an episode that was graded")
    last = max(rows[number].step or 0 for number in graded)
    of_last = [number for number in graded if (rows[number].step or 0) == last]
    return max(of_last, key=lambda number: (rows[number].reward, rows[number].edits or 0))


def terminal(browser: Browser) -> None:
    """Two edits of an episode, as `render_mode="human"` prints it: page and diff of the last."""
    os.environ |= {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}  # Rich: as on a terminal
    env = gym.make("ResumeEditMini-v0", render_mode="human")
    with redirect_stdout(StringIO()):  # what reset and step print
        env.reset(options={"task_id": PLAYED})
        for action in ACTIONS:
            env.step(action)
    with redirect_stdout(StringIO()) as printed:
        env.render()
    screen = Console(record=True, width=COLUMNS, file=StringIO())
    screen.print(Text.from_ansi(printed.getvalue().rstrip("\n")))
    page = browser.new_page(viewport={"width": 1460, "height": 950})
    svg = screen.export_svg(title="Resume Gym")
    page.set_content(f"<style>body {{ margin: 0 }}</style>{svg}")
    page.locator("svg").first.screenshot(path=DOCS / "play.png")
    page.close()


if __name__ == "__main__":
    main()
