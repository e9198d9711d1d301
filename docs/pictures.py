"""Makes pictures of the README: `python docs/pictures.py viewer runs/nano` writes docs/viewer.png.

Each picture is a function of a folder (a run's or an evaluation's) and the file to write.
It takes Chromium: Debian's, or what `playwright install chromium` brings.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from playwright.sync_api import sync_playwright

from resume_gym.viewer.data import Results
from resume_gym.viewer.rows import Row
from resume_gym.viewer.server import serve

SIZE = (1104, 690)
SCALE = 1.16
"""Pixels of the picture for each of the page: what is 1280 wide is legible at README width."""


def viewer(folder: Path, file: Path) -> None:
    """The last step's best episode: what it earned, why, and its first turns."""
    results = Results(folder)
    results.refresh()
    number = _best(results.rows)
    with serve(results, 0) as server, sync_playwright() as playwright:
        Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(
            viewport={"width": SIZE[0], "height": SIZE[1]},
            device_scale_factor=SCALE,
            color_scheme="light",
        )
        page.goto(f"http://127.0.0.1:{server.server_port}/#/episode/{number}")
        page.wait_for_selector(".beside .turn")
        page.evaluate("document.querySelector('.beside').scrollIntoView({ behavior: 'instant' })")
        page.screenshot(path=file)
        browser.close()
        server.shutdown()


def _best(rows: list[Row]) -> int:
    """The number of the episode with the highest reward among those of the last step."""
    graded = [number for number, row in enumerate(rows) if row.reward is not None]
    if not graded:
        raise SystemExit("pictures: expected a folder with an episode that was graded")
    last = max(rows[number].step or 0 for number in graded)
    of_last = [number for number in graded if (rows[number].step or 0) == last]
    return max(of_last, key=lambda number: (rows[number].reward, rows[number].edits or 0))


PICTURES: dict[str, Callable[[Path, Path], None]] = {"viewer": viewer}


def main() -> None:
    """Make one picture beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("picture", choices=sorted(PICTURES))
    parser.add_argument("folder", type=Path, help="a run's or an evaluation's")
    options = parser.parse_args()
    file = Path(__file__).with_name(f"{options.picture}.png")
    PICTURES[options.picture](options.folder, file)
    print(file)


if __name__ == "__main__":
    main()
