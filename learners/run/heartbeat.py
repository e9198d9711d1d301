"""Status of a run for people and programs, and handling of Ctrl-C."""

import errno
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.text import Text

from learners.run.folder import HEARTBEAT, Metrics, RunFolder
from learners.training import checkpoint
from learners.training.ranks import INTERRUPTED
from resume_gym.support.command_line import complain
from resume_gym.support.terminal import Terminal

_LIVE_S = 1.0
"""Time in seconds between two updates of the live line on a terminal."""
_END_S = 5.0
"""Time in seconds to close loggers and servers after Ctrl-C, before the process is killed."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_IDLE = {"now": "", "next": ""}
_EVALUATION = "evaluation"
_PHASES: Mapping[str, tuple[str, str]] = {
    "start": ("starting", _EVALUATION),
    "before": (_EVALUATION, "step {next}"),
    "rollout": ("sampling and grading", "training"),
    "train": ("training", "publishing the weights"),
    "publish": ("publishing the weights", "step {next}"),
    "save": ("saving", "step {next}"),
    "evaluate": (_EVALUATION, "step {next}"),
    "export": ("exporting the model", _EVALUATION),
    "after": (_EVALUATION, "the end"),
}


class Heartbeat:
    """Thread that writes `heartbeat.json`, prints the status, and handles Ctrl-C.

    The thread writes and prints on time even while the main thread computes. On a terminal, it
    keeps a live line below the output; elsewhere, it prints a line if the run has printed nothing
    for `every_s` seconds. The first Ctrl-C prints what is saved, and ends the run within `_END_S`
    seconds. A second Ctrl-C ends the run immediately.

    | key | content |
    |---|---|
    | `state` | "running", "ended", "interrupted" or "stopped" |
    | `why` | reason for the state; empty for "running" |
    | `end` | "steps", "goal" or "budget" for "ended"; otherwise empty |
    | `now`, `since`, `next` | current phase and evaluation, the phase's start, the next phase |
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
        evaluation: function that returns the progress of the running evaluations; empty if none is.
    """

    def __init__(self, run: RunFolder, steps: int, every_s: float) -> None:
        self._run, self._steps, self._every_s = run, steps, every_s
        self.console = Terminal()
        self.evaluation: Callable[[], str] = lambda: ""
        self._writing = threading.Lock()
        self._began = self._spoke = self._wrote = time.monotonic()
        self._earlier, self._totals = dict[str, float](), dict[str, float]()
        self._status = {"state": "running", "why": "", "end": ""}
        self._answered = threading.Event()
        self._woken, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.now("start", 0)
        self._live = Live(
            get_renderable=lambda: Text(self._line(), "dim", no_wrap=True, overflow="ellipsis"),
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._earlier = self._run.totals()
        self._totals = dict(self._earlier)
        self._write()
        if self._every_s and self.console.is_interactive and self.console.file.isatty():
            self._live.start()
            self.console.show_cursor()  # a killed process could not show it again
        self._wake.setblocking(False)
        # a signal wakes the heartbeat thread at once; the main thread handles it between operations
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._live.stop()
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
        """Return the run's time and judge cost, summed over earlier processes and this process.

        A cost is left out if it is unknown in this process or in an earlier one.
        """
        own = {name: metrics[name] for name in self._earlier if name in metrics}
        own["seconds_total"] = time.monotonic() - self._began
        totals = {name: value + self._earlier.get(name, 0.0) for name, value in own.items()}
        if metrics:
            self._totals = totals
        return totals

    def end(self, kind: str, why: str) -> None:
        """Record why the run has ended, and remove the live line."""
        self._live.stop()
        self._status = {"state": "ended", "why": why, "end": kind}

    def say(self, text: str) -> None:
        """Print a line in the terminal."""
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)
        self._spoke = time.monotonic()

    def _watch(self) -> None:
        every_s = min(self._every_s, _LIVE_S) if self._live.is_started else self._every_s
        self._woken.settimeout(every_s or None)
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
        now = time.monotonic()
        if now - self._wrote >= self._every_s:
            self._wrote = now
            self.save()
        if self._live.is_started:
            self._live.refresh()
        elif now - self._spoke >= self._every_s:
            self.say(self._line())

    def _line(self) -> str:
        now, since = self._now
        lasts = time.monotonic() - since
        place = f"step {now['step']}/{self._steps}"
        return f"{place}: {self._doing()} ({lasts:.0f} s), then {now['next']}"

    def _doing(self) -> str:
        """Return the current phase and the progress of the running evaluations."""
        now, evaluation = str(self._now[0]["now"]), self.evaluation()
        if not evaluation:
            return now
        return evaluation if now == _EVALUATION else f"{evaluation}; {now}"

    def save(self) -> None:
        """Write the file now; a full disk is no error."""
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        doing = {"now": self._doing()} if self._status["state"] == "running" else _IDLE
        beat = {
            **self._status,
            **self._now[0],
            **doing,
            "steps": self._steps,
            "at": datetime.now().astimezone().isoformat(timespec="seconds"),
            "every_s": self._every_s,
            "totals": self._totals | self.totals({}),
            "process": os.getpid(),
            "host": socket.gethostname(),
        }
        with self._writing:  # two threads write
            self._run.writer.replace(HEARTBEAT, json.dumps(beat, indent=1) + "\n")

    def _interrupt(self) -> None:
        """Handle Ctrl-C; kill the process if it does not end soon, or at the next Ctrl-C."""
        with suppress(Exception):  # the process must end even if writing fails
            self._live.stop()
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
