"""Make the pictures of the documentation; `make pictures` plays the episodes and runs this script.

    python docs/pictures.py runs/nano runs/nano-held-out

Requires `tests` on the module path, which locates Chromium.
"""

import argparse
import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import gymnasium as gym
from components import chromium
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from resume_gym.agents import make_agent
from resume_gym.apps.play.app import PlayApp
from resume_gym.apps.play.episode import start
from resume_gym.apps.play.form import Fields
from resume_gym.apps.plot.plot import plot
from resume_gym.apps.viewer.data import FolderContents
from resume_gym.apps.viewer.rows import EpisodeRow
from resume_gym.apps.viewer.server import serve

SIZE = (1104, 690)
SCALE = 1.16
"""Pixels of the picture for each of the page: what is 1280 wide is legible at README width."""


DOCS = Path(__file__).parent
PLAYED = "mini-train-0-000005"
EDITS = (("Was responsible for redesigning", "Redesigned"), ("Work included fixing", "Fixed"))


def main() -> None:
    """Make all pictures beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("evaluation", type=Path, help="what `resume-gym eval --out` has written")
    options = parser.parse_args()
    episode()
    plots(options.run, ["training"])
    plots(options.evaluation, ["weaknesses"])
    played = asyncio.run(play())  # a browser that is open runs a loop of its own
    with launched() as browser:
        viewer(browser, options.run)
        terminal(browser, played)


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


async def play() -> str:
    """Play an episode by hand until the second edit is typed; return the screen as SVG."""
    app = PlayApp(start("ResumeEditMini-v0", task_id=PLAYED))
    async with app.run_test(size=(116, 36)) as pilot:
        await pilot.press("ctrl+r")
        fields = app.query_one(Fields).areas
        for edit in EDITS:
            for area, text in zip((fields["old"], fields["new"]), edit, strict=True):
                area.focus()
                await pilot.press(*text)
            if edit is not EDITS[-1]:
                await pilot.press("ctrl+s")
        await pilot.pause()
        return app.export_screenshot(simplify=True)


def terminal(browser: Browser, screen: str) -> None:
    """Save the screen of `resume-gym play`, an SVG, as a PNG picture."""
    page = browser.new_page(viewport={"width": 1460, "height": 950})
    page.set_content(f"<style>body {{ margin: 0 }}</style>{screen}")
    page.locator("svg").first.screenshot(path=DOCS / "play.png")
    page.close()


if __name__ == "__main__":
    main()
