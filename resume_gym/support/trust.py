"""Rules for the import of modules that options and files name, as in `--env module:ID`.

A module that the command line names is trusted. A file, such as the configuration of a run, may
come from a stranger. A module named only in a file is therefore imported only if the command has
the option `--trust-remote-code`, or if the run was started on this machine. The start of a run is
recorded outside the folder of the run.
"""

import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

FLAG = "--trust-remote-code"
HELP = "import modules that input files name; these modules can run any code"

STARTED = "started"
"""Name of the file, in the folder of a run, that holds the run's random id."""

_LOCAL = re.compile(r"https?://(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?(/[\w./-]*)?")
_KEYS = ("env", "tasks", "judge")


def import_named(module: str) -> ModuleType:
    """Import a trusted module, which may be in the current folder.

    The current folder is on the import path only during this import. If it stayed there, a later
    import of an optional package that is not installed could run a file of that name in the folder.

    Raises:
        ImportError: the module does not exist, or its code raises an error or exits.
    """
    added = not {"", os.getcwd()} & set(sys.path)
    if added:
        sys.path.append("")
    try:
        return import_module(module)
    except ImportError:
        raise
    except (Exception, SystemExit) as problem:  # the module may run any code
        reason = f"{type(problem).__name__}: {problem}"
        raise ImportError(f"{module} cannot be imported: {reason}", name=module) from problem
    finally:
        if added and "" in sys.path:
            sys.path.remove("")


def is_local(url: object) -> bool:
    """Return whether a URL names this machine; False if URL parsers may disagree on the host."""
    return isinstance(url, str) and bool(_LOCAL.fullmatch(url))


def refusal(file: Path, does: str, name: str) -> str:
    """Return the error message for an untrusted file; `does` is text like "names a server"."""
    return f"{file} {does}, {name!r}; if you trust it, add {FLAG}"


def remember(folder: Path, settings: Mapping[str, object]) -> None:
    """Remember that a run or an evaluation with these settings was started on this machine.

    Do not pass settings that were read from the folder: a stranger may have written them.
    """
    file = folder / STARTED
    with suppress(OSError):  # if the record cannot be written, users need `FLAG`
        # remove an existing file, which could be a link to another file
        file.unlink(missing_ok=True)
        file.write_text(secrets.token_hex() + "\n", encoding="utf-8")
        mark = _mark(folder, settings)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def is_remembered(folder: Path, settings: Mapping[str, object]) -> bool:
    """Return whether a run in this folder, with these settings, was started on this machine."""
    file = folder / STARTED
    return file.is_file() and file.stat().st_size < 100 and _mark(folder, settings).is_file()


def _mark(folder: Path, settings: Mapping[str, object]) -> Path:
    # the key includes a random id and the settings, so no later run in this folder has the same key
    identity = [str(folder.resolve()), (folder / STARTED).read_bytes().hex()]
    key = json.dumps([*identity, *(settings.get(name) or "" for name in _KEYS)])
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "resume-gym" / "started" / hashlib.sha256(key.encode()).hexdigest()
