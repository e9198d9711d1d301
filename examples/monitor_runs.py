"""Show which training runs need a person's attention, from their heartbeat and journal files.

    python examples/monitor_runs.py runs        # every run in this folder
    watch -n 60 python examples/monitor_runs.py runs

The script only reads files, so it also works on a folder shared by another machine. Example output:

    run     step    state        person  why
    first   20/20   ended        no      all 20 steps are done
    second  10/20   ended        yes     the budget is used up: 2.1 hours, expected <= 2
    third   7/20    running      yes     Step 6: warning, entropy 0.010, down from 0.500
    fourth  7/20    silent       yes     no heartbeat for 95 minutes; sampling and grading
    fifth   13/20   running      no      training, then publishing the weights

The exit status is 3 if a run needs a person, 2 if the folder has no runs, else 0.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from resume_gym.support.json_lines import is_finite
from resume_gym.support.printing import visible

BEATS = 4
"""Number of missed heartbeats after which a run counts as silent."""
TEXTS = ("state", "why", "end", "now", "next", "at")
NUMBERS = ("step", "steps", "every_s")
SLOW_S = 60.0
"""Additional silence in seconds that is tolerated, since a machine may be under load."""
ENTRY = re.compile(r"- (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (.*)")


class Row(NamedTuple):
    """Row of the printed table; it describes one run."""

    run: str
    step: str
    state: str
    person: str
    why: str


HEADER = Row(*Row._fields)


def look(folder: Path, now: datetime) -> Row:
    """Return the row of a run from its folder, which must have a heartbeat file."""
    try:
        beat = json.loads(text_of(folder / "heartbeat.json"))
        for name, value in beat.items():
            if name in NUMBERS and not is_finite(value):
                raise ValueError(f"heartbeat.json: {name}: expected a number, got {value!r:.40}")
            if name in TEXTS and not isinstance(value, str):
                raise ValueError(f"heartbeat.json: {name}: expected a text, got {value!r:.40}")
        state, why, needed = judged(beat, entries(folder), now)
        step = f"{beat['step']}/{beat['steps']}"
        return Row(folder.name, step, state, needed, " ".join(why.split()))
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        return Row(folder.name, "?", "unreadable", "yes", " ".join(str(error).split()))


def text_of(file: Path) -> str:
    """Return the text of a regular file; refuse other files, as reading a pipe may never end."""
    if not file.is_file():
        raise ValueError(f"{file.name}: expected a file")
    return file.read_text(encoding="utf-8")


def judged(beat: Mapping[str, Any], journal: list[str], now: datetime) -> tuple[str, str, str]:
    """Return the state of a run, the reason, and whether the run needs a person ("yes", "no")."""
    warnings = [one for one in journal if "warning" in one.lower()]
    if beat["state"] == "ended":  # all ends but "budget" are normal
        needed = "yes" if warnings or beat["end"] == "budget" else "no"
        return "ended", "; ".join([beat["why"], *warnings[-1:]]), needed
    if beat["state"] != "running":
        return beat["state"], beat["why"], "yes"
    if journal and journal[-1].startswith("Interrupted"):  # written by the run's launcher
        return "interrupted", journal[-1], "yes"
    # the heartbeat may come from a machine in another time zone
    at = datetime.fromisoformat(beat["at"]).astimezone()
    silent = (now.astimezone() - at).total_seconds()
    if beat["every_s"] and silent > BEATS * beat["every_s"] + SLOW_S:
        return "silent", f"no heartbeat for {silent / 60:.0f} minutes; {beat['now']}", "yes"
    if warnings:
        return "running", warnings[-1], "yes"
    return "running", f"{beat['now']}, then {beat['next']}", "no"


def entries(folder: Path) -> list[str]:
    """Return the journal's entries since the run was last started, oldest first."""
    file = folder / "journal.md"
    lines = text_of(file).splitlines() if file.exists() else []
    found = [match[2] for line in lines if (match := ENTRY.fullmatch(line))]
    starts = [n for n, text in enumerate(found) if text.startswith("Command: ")]
    return found[starts[-1] :] if starts else found


def main() -> int:
    """Print the table of runs; return the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("folder", nargs="?", default="runs", type=Path)
    folder: Path = parser.parse_args().folder
    runs = sorted(file.parent for file in folder.glob("*/heartbeat.json"))
    if not runs:
        print(f"{folder}: expected folders of runs, with heartbeat.json", file=sys.stderr)
        return 2
    rows = [look(run, datetime.now()) for run in runs]
    row_form = "  ".join(
        f"{{:{max(map(len, column))}}}" for column in zip(HEADER, *rows, strict=True)
    )
    for row in (HEADER, *rows):
        print(visible(row_form.format(*row).rstrip()))
    return 3 if any(row.person == "yes" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
