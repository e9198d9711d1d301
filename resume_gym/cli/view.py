"""`resume-gym view`: show a run or an evaluation in a browser, or export it as one HTML file."""

import argparse
from contextlib import suppress
from pathlib import Path

from resume_gym.apps.viewer.data import Results
from resume_gym.apps.viewer.html import export, is_exported
from resume_gym.apps.viewer.server import PORT, serve
from resume_gym.atomic_write import check_new_file
from resume_gym.cli.arguments import Commands, add_parser, progress_bars
from resume_gym.tasks import TaskError
from resume_gym.trust import FLAG, HELP


def add_command(commands: Commands) -> None:
    """Add `view`."""
    command = add_parser(
        commands,
        "view",
        "look at a run or an evaluation in a browser",
        "Look at a run or an evaluation in a browser: curves, a table of the episodes, and each "
        "episode turn by turn. Ctrl-C stops the server with status 0.",
        ["view runs/nano", "view result --export result.html"],
    )
    add = command.add_argument
    add("folder", type=Path, metavar="RUN_OR_RESULT", help="folder of a run or an evaluation")
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
        help="write a file that needs no server, instead of serving; it has no tokens",
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
        raise TaskError(f"--export: {str(target)!r} exists and is no export; name another file")
    results = _open(options.folder, options.trust_remote_code)
    if target:
        left_out = export(results, target)
        size = target.stat().st_size / 2**20
        omitted = f"; {left_out} of them only as rows of the table" if left_out else ""
        print(f"{target}: {len(results.rows)} episodes{omitted}, {size:.1f} MB, without tokens")
        return
    try:
        server = serve(results, options.port)
    except OSError as problem:
        hint = "choose another with --port, or 0 for any"
        raise TaskError(
            f"--port: {options.port} is not available ({problem.strerror}); {hint}"
        ) from None
    with server, suppress(KeyboardInterrupt):
        print(f"{len(results.rows)} episodes of {results.path}", flush=True)
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C to stop)", flush=True)
        server.serve_forever()


def _open(folder: Path, trusted: bool) -> Results:
    """Read a folder, with a progress bar on the terminal."""
    results = Results(folder, trusted)
    with progress_bars() as bars:
        bar = bars.add_task("reading episodes", total=len(results.files()))
        results.refresh(lambda: bars.advance(bar))
    if results.unreadable and not results.rows:
        raise TaskError(f"view: {str(folder)!r} has no episode that can be read, but other lines")
    return results
