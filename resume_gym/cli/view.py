"""`resume-gym view`: show runs and evaluations in a browser, or write them to a file."""

import argparse
from contextlib import suppress
from pathlib import Path

from resume_gym.apps.viewer.data import FolderContents
from resume_gym.apps.viewer.html import export, is_exported
from resume_gym.apps.viewer.listing import Listing, open_folder
from resume_gym.apps.viewer.server import PORT, serve
from resume_gym.cli.arguments import Commands, progress_bars
from resume_gym.support.atomic_write import check_new_file, through_links
from resume_gym.support.printing import say
from resume_gym.support.trust import FLAG, HELP
from resume_gym.support.user_errors import TaskError, number_of


def add_command(commands: Commands) -> None:
    """Add the parser of the command `view`."""
    command = commands.add_parser(
        "view",
        help="look at runs and evaluations in a browser",
        description="Look in a browser at a run, an evaluation, or a folder of runs and "
        "evaluations. The page shows curves, a table of the episodes, and each episode turn by "
        "turn. While a job runs, the page adds new data. Ctrl-C stops the server with status 0.",
        examples=["view runs", "view result --export result.html"],
    )
    add = command.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a run, an evaluation, or a folder of these")
    add(
        "--port",
        type=_port,
        default=PORT,
        metavar="N",
        help="local port of the server; 0 for any free port (default: %(default)s)",
    )
    add(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write the page to a file that needs no server, and exit",
    )
    add(FLAG, action="store_true", help=f"{HELP}; also load tasks from the Hub")
    command.set_defaults(run=_run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> None:
    target: Path | None = options.export
    check_new_file("--export", target)
    if target and target.exists() and not is_exported(target):
        raise TaskError(f"--export: {str(target)!r} exists but is no exported page; name another")
    shown = _open(options.folder, options.trust_remote_code)
    if isinstance(shown, Listing):
        names = sorted(shown.folders())
        if target:
            raise TaskError(f"--export: choose one folder in {shown.path}: {', '.join(names)}")
        told = f"{shown.path}, runs and evaluations: {len(names)}"
    else:
        told = f"{number_of(len(shown.rows), 'episode')} of {shown.path}"
        if target:
            _export(shown, target)
            return
    try:
        server = serve(shown, options.port)
    except OSError as problem:
        hint = "choose another with --port, or 0 for any"
        raise TaskError(
            f"--port: {options.port} is not available ({problem.strerror}); {hint}"
        ) from None
    with server, suppress(KeyboardInterrupt):
        say(told)
        say(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C to stop)")
        server.serve_forever()


def _export(results: FolderContents, target: Path) -> None:
    left_out = export(results, through_links(target))
    size = target.stat().st_size / 2**20
    omitted = f"; {left_out} of them only as rows of the table" if left_out else ""
    say(f"{target}: {number_of(len(results.rows), 'episode')}{omitted}, {size:.1f} MB")


def _open(folder: Path, trusted: bool) -> FolderContents | Listing:
    """Open a folder; if it is a run or an evaluation, read all episodes, with a progress bar."""
    shown = open_folder(folder, trusted)
    if isinstance(shown, FolderContents):
        with progress_bars() as bars:
            bar = bars.add_task("reading episodes", total=len(shown.files()))
            shown.refresh(lambda: bars.advance(bar))
        metrics = folder / "metrics.jsonl"
        written = shown.unreadable or (metrics.is_file() and metrics.stat().st_size)
        if written and not shown.rows and next(shown.steps("metrics.jsonl", []), None) is None:
            told = "has lines, but no readable episode or step"
            raise TaskError(f"{str(folder)!r} {told}")
    return shown
