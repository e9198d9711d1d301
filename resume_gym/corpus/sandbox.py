"""Read untrusted documents in child processes with limits.

A server process imports the readers once and forks a child process for each document; the operating
system enforces `Limits` on the child. Running this module starts the server.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock, Timer
from typing import Any, BinaryIO, NamedTuple

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.readers import convert


class Limits(NamedTuple):
    """Limits for one document: address space, CPU time, elapsed time, size of the output."""

    memory_mb: int = 1_000
    cpu_s: int = 15
    time_s: int = 90
    output_mb: int = 4


LIMITS = Limits()

_NO_MEMORY = 3  # exit status of a reader that ran out of memory

_server: tuple[int, "subprocess.Popen[bytes]"] | None = None  # parent's process ID, and the server
_lock = Lock()


def read_apart(kind: str, data: bytes, outline: bool, limits: Limits = LIMITS) -> Any:
    """Convert a file in a child process; see `corpus.readers.convert`.

    Returns:
        The fields of a `documents.ReadFile` as JSON values.

    Raises:
        DocumentError: the reader rejects the file, or exceeds a limit, which the message names.
        ModuleNotFoundError: the package for the format is missing.
    """
    request = json.dumps([kind, outline, len(data), limits]).encode() + b"\n" + data
    with _lock:
        answer = json.loads(_ask(request, limits))
    if "missing" in answer:
        raise ModuleNotFoundError(answer["missing"])
    if "error" in answer:
        raise DocumentError(answer["error"])
    return answer["document"]


def _ask(request: bytes, limits: Limits) -> bytes:
    global _server
    if not _server or _server[0] != os.getpid() or _server[1].poll() is not None:
        _server = os.getpid(), _start()
    process = _server[1]
    assert process.stdin
    assert process.stdout
    # a backstop: `Limits` end the child earlier
    timer = Timer(limits.time_s + 5, process.kill)
    timer.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        answer = process.stdout.readline(limits.output_mb << 20)
    finally:
        timer.cancel()
    if not answer.endswith(b"\n"):
        process.kill()
        process.wait()  # without `wait`, `poll` might still report the server as running
        return _error(f"reading it takes more than {limits.time_s} s or crashes the reader")
    return answer


def _error(why: str) -> bytes:
    return json.dumps({"error": why}).encode()


def _start() -> "subprocess.Popen[bytes]":
    # Make the server import this process's copy of the package, never the current folder's.
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C ends only the parent; its exit closes the server's stdin
    )


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until the input ends; a request is a JSON line, then the bytes of a file."""
    for package in ("pdfplumber", "mammoth", "markdown_it"):
        with suppress(ImportError):  # imported once for all forks; readers report missing packages
            import_module(package)
    while line := source.readline():
        kind, outline, size, limits = json.loads(line)
        sink.write(_forked(kind, source.read(size), outline, Limits(*limits)) + b"\n")
        sink.flush()


def _read(kind: str, data: bytes, outline: bool, limits: Limits) -> bytes:
    try:
        answer: dict[str, Any] = {"document": convert(kind, data, outline)}
    except ModuleNotFoundError as problem:
        answer = {"missing": str(problem)}
    except Exception as problem:  # third-party parsers may raise anything
        cause: BaseException | None = problem
        while cause:  # parsers may also wrap a MemoryError
            if any(isinstance(one, MemoryError) for one in (cause, *cause.args)):
                raise MemoryError from None
            cause = cause.__context__
        why = f"{type(problem).__name__}: {problem}"[:200]
        known = isinstance(problem, DocumentError)
        answer = {"error": str(problem) if known else f"it cannot be read as {kind} ({why})"}
    return json.dumps(answer).encode()


def _forked(kind: str, data: bytes, outline: bool, limits: Limits) -> bytes:
    """Read a document in a fork; return its answer, or an error that names the exceeded limit."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            _limit(limits)
            with open(writer, "wb") as pipe:
                pipe.write(_read(kind, data, outline, limits))
            status = 0
        except MemoryError:
            status = _NO_MEMORY
        finally:
            os._exit(status)
    os.close(writer)
    most = limits.output_mb << 20
    with open(reader, "rb") as pipe:
        found = pipe.read(most)
    if len(found) == most:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not status:
        return found
    reached = {
        -signal.SIGXCPU: f"{limits.cpu_s} s of CPU time",
        -signal.SIGALRM: f"{limits.time_s} s",
        _NO_MEMORY: f"{limits.memory_mb:,} MB of memory",
        -signal.SIGKILL: f"{limits.output_mb} MB of text",
    }.get(status)
    return _error(
        f"reading it exceeds {reached}" if reached else f"its reader ended with status {status}"
    )


def _limit(limits: Limits) -> None:
    import resource

    signal.alarm(limits.time_s)
    for what, most in (
        (resource.RLIMIT_AS, limits.memory_mb << 20),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # macOS cannot limit the address space
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
