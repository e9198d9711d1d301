"""The user's files: read with all that an edit must leave alone, and never overwritten."""

import codecs
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from resume_gym.corpus.documents import DocumentError, read_document
from resume_gym.tasks import TaskError

_TEXTS = ("Markdown", "plain text")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_END = re.compile(r"(\r\n|\r|\n)")


@dataclass(frozen=True)
class Source:
    """A document of the user's.

    Attributes:
        path: of its file.
        text: what it says, with line feeds and one final newline; Markdown, or plain text as it is.
        kind: its format, as in `corpus.documents.FORMATS`.
        notes: what was lost on the way from another format.
        raw: the bytes of a text; empty where the text had to be made of another format.
    """

    path: Path
    text: str
    kind: str
    notes: tuple[str, ...]
    raw: bytes

    @property
    def suffix(self) -> str:
        """The extension of what is made of it: other formats become Markdown."""
        return self.path.suffix if self.raw else ".md"

    def encoded(self, revised: str) -> bytes:
        """The bytes of a revision of `text`.

        Encoding, byte order mark, line ends and blank lines around the text are the source's, so
        that lines nobody edited stay as they are, byte for byte, and new ones end as most do.
        """
        if not self.raw:
            return revised.encode()
        mark = next((one for one in _MARKS if self.raw.startswith(one)), b"")
        encoding = _MARKS.get(mark, "utf-8")
        parts = _END.split(self.raw[len(mark) :].decode(encoding))
        lines, ends = parts[::2], parts[1::2]
        whole = "\n".join(lines)
        before, _, after = whole.partition(whole.strip("\n"))
        new = (before + revised.strip("\n") + after).split("\n")
        usual = Counter(ends).most_common(1)[0][0] if ends else "\n"
        new_ends = [usual] * (len(new) - 1) + [""]
        if len(set(ends)) > 1:
            for i, j, size in SequenceMatcher(None, lines, new).get_matching_blocks():
                for step in range(size):
                    if i + step < len(ends) and j + step < len(new) - 1:
                        new_ends[j + step] = ends[i + step]
        text = "".join(line + end for line, end in zip(new, new_ends, strict=True))
        return mark + text.encode(encoding)


def read_source(path: Path) -> Source:
    """Read a resume or a job description.

    Raises:
        TaskError: it cannot be read; names the file.
        ModuleNotFoundError: the package for its format is missing.
    """
    try:
        document = read_document(path, outline=False)
        raw = path.read_bytes() if document.kind in _TEXTS else b""
    except DocumentError as problem:
        raise TaskError(f"{path}: {problem}") from None
    return Source(path, document.text, document.kind, document.notes, raw)


def check_places(places: Mapping[str, Path], sources: Sequence[Path], *, force: bool) -> None:
    """See that files can be written, and that nothing is lost by it.

    Args:
        places: option of the command line -> the file it names.
        sources: files that were read.
        force: whether other files may be replaced.

    Raises:
        TaskError: one cannot, or would take the place of what must stay.
    """
    taken = list(sources)
    for option, path in places.items():
        if not path.parent.is_dir():
            raise TaskError(f"{option}: there is no folder {str(path.parent)!r}")
        if path.is_dir():
            raise TaskError(f"{option}: expected a file, {str(path)!r} is a folder")
        if any(_same(path, one) for one in taken):
            told = "is one of the files that are read or written; name another"
            raise TaskError(f"{option}: {str(path)!r} {told}")
        if os.path.lexists(path) and not force:
            told = f"exists; --force replaces it, {option} FILE names another"
            raise TaskError(f"{option}: {str(path)!r} {told}")
        if not os.access(path.parent, os.W_OK):
            raise TaskError(f"{option}: the folder {str(path.parent)!r} may not be written to")
        taken.append(path)


def _same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)  # also through links
    return path.resolve() == other.resolve()


def write_files(contents: Mapping[Path, bytes], like: Path, *, force: bool) -> None:
    """Write files, each whole or not at all.

    Args:
        contents: what to write where.
        like: a file whose permissions they get: a resume that others may not read.
        force: whether files may be replaced.

    Raises:
        OSError: one could not be written, or is there by now; what it was to hold stays in a
            file that the message names.
    """
    drafts: dict[Path, Path] = {}
    for number, (path, content) in enumerate(contents.items()):
        draft = path.with_name(f".revise-{os.getpid()}-{number}")
        try:
            draft.write_bytes(content)
            shutil.copymode(like, draft)
        except OSError:
            for one in (draft, *drafts.values()):
                one.unlink(missing_ok=True)
            raise
        drafts[path] = draft
    for path, draft in drafts.items():
        if os.path.lexists(path) and not force:
            raise OSError(f"{path} has been made meanwhile; see {draft}")
        draft.replace(path)
