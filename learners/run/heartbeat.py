"""Status of a run for people and programs, and handling of Ctrl-C."""

import errno
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Self

from learners.run.folder import HEARTBEAT, TOTALS, Metrics, RunFolder
from learners.training import checkpoint
from learners.training.ranks import INTERRUPTED
from resume_gym.support.command_line import complain
from resume_gym.support.terminal import Terminal

_END_S = 5.0
"""Time in seconds to close loggers and servers after Ctrl-C, before the process is killed."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_IDLE = {"now": "", "next": ""}
_PHASES: Mapping[str, tuple[str, str]] = {
    "start": ("starting", "playing held-out tasks"),
    "before": ("playing held-out tasks", "step {next}"),
    "rollout": ("sampling and grading", "training"),
    "train": ("training", "publishing the weights"),
    "publish": ("publishing the weights", "step {next}"),
    "save": ("saving", "step {next}"),
    "evaluate": ("playing held-out tasks", "step {next}"),
    "export": ("exporting the model", "playing held-out tasks"),
    "after": ("playing held-out tasks", "the end"),
}


class Heartbeat:
    """Thread that writes `heartbeat.json`, prints the status, and handles Ctrl-C.

    The thread writes and prints on time even while the main thread computes. It prints only if the
    run has printed nothing for `every_s` seconds. The first Ctrl-C prints what is saved, and ends
    the run within `_END_S` seconds. A second Ctrl-C ends the run immediately.

    | key | content |
    |---|---|
    | `state` | "running", "ended", "interrupted" or "stopped" |
    | `why` | reason for the state; empty for "running" |
    | `end` | "steps", "goal" or "budget" for "ended"; otherwise empty |
    | `now`, `since`, `next` | current phase, its start, and the next phase |
    | `step`, `steps` | the current step, and the number of all steps |
    | `at`, `every_s` | time of writing, and seconds between two writes |
    | `totals` | time and judge cost so far, summed over all processes of the run |
    | `process`, `host` | process that writes the file, and its machine |

    Args:
        run: folder of the run.
        steps: number of steps of the run.
        every_s: seconds between two heartbeats; 0 for heartbeats at start and end only.

    Attributes:
        console: terminal for all output of the run; `say` prints a single line to it.
    """

    def __init__(self, run: RunFolder, steps: int, every_s: float) -> None:
        self._run, self._steps, self._every_s = run, steps, every_s
        self.console = Terminal()
        self._began = self._spoke = time.monotonic()
        self._earlier, self._totals = dict[str, float](), dict[str, float]()
        self._status = {"state": "running", "why": "", "end": ""}
        self._answered = threading.Event()
        self._woken, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.now("start", 0)

    def __enter__(self) -> Self:
        self._earlier = self._run.totals()
        self._totals = dict(self._earlier)
        self._write()
        self._wake.setblocking(False)
        # a signal wakes the heartbeat thread at once; the main thread handles it between operations
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt) and self._answered.wait(_END_S):
            # keep the thread: it kills the process if Python's exit waits too long for an engine
            raise SystemExit(INTERRUPTED) from None
        signal.set_wakeup_fd(-1)
        self._wake.close()
        self._thread.join()
        self._woken.close()
        if isinstance(error, Exception):
            why = " ".join(str(error).split()) or type(error).__name__
            self._status = {"state": "stopped", "why": why, "end": ""}
            if getattr(error, "errno", None) in _FULL:
                # an unfinished checkpoint fills the disk: make room to say why the run has ended
                with suppress(OSError):
                    checkpoint.remove_unfinished(self._run.checkpoints)
            with suppress(OSError):
                self._run.note(f"Stopped: {why}")
        with suppress(OSError):
            self._write()
        if isinstance(error, KeyboardInterrupt):
            raise SystemExit(INTERRUPTED) from None

    def now(self, phase: str, step: int) -> None:
        """Record that a phase of a step begins."""
        now, then = _PHASES[phase]
        self._now = (
            {
                "step": step,
                "now": now,
                "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}",
                "next": then.format(next=step + 1),
            },
            time.monotonic(),
        )

    def totals(self, metrics: Metrics) -> dict[str, float]:
        """Return the run's time and judge cost, summed over earlier processes and this process."""
        own = {name: metrics[name] for name in TOTALS if name in metrics}
        own["seconds_total"] = time.monotonic() - self._began
        totals = {name: value + self._earlier.get(name, 0.0) for name, value in own.items()}
        self._totals |= totals
        return totals

    def end(self, kind: str, why: str) -> None:
        """Record why the run has ended."""
        self._status = {"state": "ended", "why": why, "end": kind}

    def say(self, text: str) -> None:
        """Print a line in the terminal."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)
        self._spoke = time.monotonic()

    def _watch(self) -> None:
        self._woken.settimeout(self._every_s or None)
        while True:
            try:
                signals = self._woken.recv(1)
            except TimeoutError:
                self._beat()
                continue
            if not signals:  # `__exit__` has closed the other end of the socket pair
                return
            if signals[0] == signal.SIGINT:
                self._interrupt()
                return

    def _beat(self) -> None:
        now, since = self._now
        with suppress(OSError):
            self._write()
        if time.monotonic() - self._spoke >= self._every_s:
            lasts = time.monotonic() - since
            place = f"step {now['step']}/{self._steps}"
            self.say(f"{place}: {now['now']} for {lasts:.0f} s, then {now['next']}")

    def _write(self) -> None:
        beat = {
            **self._status,
            **(self._now[0] if self._status["state"] == "running" else {**self._now[0], **_IDLE}),
            "steps": self._steps,
            "at": datetime.now().astimezone().isoformat(timespec="seconds"),
            "every_s": self._every_s,
            "totals": self._totals | self.totals({}),
            "process": os.getpid(),
            "host": socket.gethostname(),
        }
        self._run.writer.replace(HEARTBEAT, json.dumps(beat, indent=1) + "\n")

    def _interrupt(self) -> None:
        """Handle Ctrl-C; kill the process if it does not end soon, or at the next Ctrl-C."""
        with suppress(Exception):  # the process must end even if writing fails
            why = interrupted(self._run, self._steps)
            self._status = {"state": "interrupted", "why": why, "end": ""}
            self._write()
        self._answered.set()
        self._woken.settimeout(_END_S)
        with suppress(TimeoutError):
            if not self._woken.recv(1):
                return
        os._exit(INTERRUPTED)


def interrupted(run: RunFolder, steps: int) -> str:
    """Print, note in the journal and return which steps an interrupted run keeps."""
    kept = run.kept(steps)
    if sys.stderr.isatty():
        print(file=sys.stderr)  # the terminal shows ^C at the beginning of a line
    complain(f"interrupted: {kept}; the same command resumes {run.path}", INTERRUPTED)
    run.note(f"Interrupted: {kept}.")
    return kept
