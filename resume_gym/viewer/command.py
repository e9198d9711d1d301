"""`resume-gym view`: a page on a run or an evaluation, served on this machine or as one file."""

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from resume_gym.tasks import TaskError
from resume_gym.viewer.data import Results
from resume_gym.viewer.html import export, is_exported
from resume_gym.viewer.server import PORT, serve


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `view`."""
    command = commands.add_parser(
        "view",
        help="look at a run or an evaluation in a browser",
        description="Look at a run or an evaluation in a browser: curves, a table of the "
        "episodes, and each of them turn by turn.",
    )
    add = command.add_argument
    add("folder", type=Path, metavar="RUN_OR_RESULT", help="a run's folder, or an evaluation's")
    add(
        "--port",
        type=_port,
        default=PORT,
        metavar="N",
        help="where to serve it, on this machine only; 0: any that is free (default: %(default)s)",
    )
    add(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write one file that needs no server, instead of serving; without tokens",
    )
    command.set_defaults(run=_run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    target: Path | None = options.export
    if target and not target.parent.is_dir():
        raise TaskError(f"--export: there is no folder {str(target.parent)!r}")
    if target and target.is_dir():
        raise TaskError(f"--export: expected a file, {str(target)!r} is a folder")
    if target and target.exists() and not is_exported(target):
        raise TaskError(f"--export: {str(target)!r} is there and was not exported from here")
    if sys.path[-1:] == [os.getcwd()]:
        # which the command line adds: what a downloaded run names is not imported from there
        sys.path.pop()
    results = _open(options.folder)
    if target:
        left_out = export(results, target)
        size = target.stat().st_size / 2**20
        told = f"; {left_out} of them only as rows of the table" if left_out else ""
        print(f"{target}: {len(results.rows)} episodes{told}, {size:.1f} MB, without tokens")
        return
    try:
        server = serve(results, options.port)
    except OSError as problem:
        hint = "choose another with --port, or 0 for any"
        raise TaskError(
            f"--port: {options.port} cannot be had ({problem.strerror}); {hint}"
        ) from None
    with server, suppress(KeyboardInterrupt):
        print(f"{len(results.rows)} episodes of {results.path}", flush=True)
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C to stop)", flush=True)
        server.serve_forever()


def _open(folder: Path) -> Results:
    """Read a folder, with a progress bar on the terminal."""
    from rich.console import Console
    from rich.progress import Progress

    results = Results(folder)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading episodes", total=len(results.files()))
        results.refresh(lambda file: progress.advance(task))
    return results
