"""Input and output files of a revision; text files keep their encoding and line ends."""

import codecs
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path

from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.documents import FORMATS, ReadFile, read_document
from resume_gym.corpus.recognition import LINE_ENDS
from resume_gym.support.atomic_write import check_new_file, through_links
from resume_gym.support.user_errors import TaskError

_TEXTS = ("Markdown", "plain text")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_END = re.compile(f"(\r\n|[{LINE_ENDS}])")


@dataclass(frozen=True)
class Source(ReadFile):
    """User's document and its path; `text` is plain text for plain-text files, else Markdown."""

    path: Path = Path()

    @property
    def suffix(self) -> str:
        """Extension of the revised file: the source's, or `.md` if the source is no text file."""
        return self.path.suffix if self.kind in _TEXTS else ".md"

    def encoded(self, revised: str) -> bytes:
        """Encode a revision of `text`: like the original file if it is a text file, else in UTF-8.

        The result keeps the file's encoding, byte order mark and line ends, and the blank lines
        around its text. Unedited lines are copied from the file, even if `text` has a normalised
        form of them. New lines get the most frequent line end of the original.
        """
        if self.kind not in _TEXTS:
            return revised.encode()
        mark = next((mark for mark in _MARKS if self.raw.startswith(mark)), b"")
        encoding = _MARKS.get(mark, "utf-8")
        # `_END` has a group, so that the split keeps the line ends between the lines
        parts = _END.split(self.raw[len(mark) :].decode(encoding))
        ends = parts[1::2]
        source = list(zip(parts[::2], [*ends, ""], strict=True))
        default = Counter(ends).most_common(1)[0][0] if ends else "\n"
        *found, (final, _) = self._lines(source, revised)
        final += default if final and ends and not source[-1][0] else ""
        text = "".join(line + (end or default) for line, end in found) + final
        return mark + text.encode(encoding)

    def _lines(self, source: Sequence[tuple[str, str]], revised: str) -> Iterator[tuple[str, str]]:
        """Yield (line, line end) for each line of a revision; line end is "" for added lines."""
        old = self.text.removesuffix("\n").split("\n")
        new = [(line, "") for line in revised.strip("\n").split("\n")]
        matcher = SequenceMatcher(None, old, [line for line, _ in new], autojunk=False)
        place = {
            i + step: j + step
            for i, j, size in matcher.get_matching_blocks()
            for step in range(size)
        }
        last = max((n for n, (count, _) in enumerate(self.blocks) if count), default=0)
        at = start = done = 0
        for number, (count, size) in enumerate(self.blocks):
            kept = [place.get(line, -1) for line in range(at, at + count)]
            if number > last:
                kept = [len(new)]
            if not count or (kept[0] >= 0 and kept[-1] - kept[0] == count - 1):
                stop = kept[0] if kept else done
                yield from new[done:stop]
                # Markdown would take a new line above an underlined heading as part of the heading.
                joined = size != count and stop > done and new[stop - 1][0].strip()
                own = source[start : start + size]
                has_text = any(line.strip() for line, _ in own)
                yield from new[stop : stop + count] if joined and has_text else own
                done = stop + count
            at, start = at + count, start + size
        yield from new[done:]


def read_source(path: Path) -> Source:
    """Read a resume or a job description.

    Raises:
        TaskError: the file cannot be read; the message names the file.
        ModuleNotFoundError: the package for the format is not installed.
    """
    try:
        document = read_document(path, outline=False)
    except DocumentError as problem:
        raise TaskError(f"{path}: {problem}") from None
    return Source(**asdict(document), path=path)


def check_places(places: Mapping[str, Path], sources: Sequence[Path], *, force: bool) -> None:
    """Check that output files can be written without replacing other files.

    Args:
        places: output files, by the command-line option that names them.
        sources: input files, which are never replaced.
        force: whether existing files other than the inputs may be replaced.

    Raises:
        TaskError: a file cannot be written, or would replace an input, another output file, or,
            without `force`, an existing file.
    """
    taken = list(sources)
    for option, path in places.items():
        check_new_file(option, path)
        if any(_same(path, other) for other in taken):
            reason = "is already an input or output file; name another file"
            raise TaskError(f"{option}: {str(path)!r} {reason}")
        if os.path.lexists(path) and not force:
            reason = f"exists; --force replaces it, and {option} FILE names another"
            raise TaskError(f"{option}: {str(path)!r} {reason}")
        if not os.access(folder := through_links(path).parent, os.W_OK):
            raise TaskError(f"{option}: the folder {str(folder)!r} is not writable")
        taken.append(path)


def check_format(out: Path) -> None:
    """Check that an output file does not have the extension of a format that can only be read.

    Raises:
        TaskError: `out` is a Word or PDF file.
    """
    if FORMATS.get(out.suffix.lower(), "plain text") not in _TEXTS:
        raise TaskError(f"--out: expected Markdown or plain text, such as .md; got {str(out)!r}")


def _same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)  # true for links to the same file, too
    # `Path.resolve` would raise an error on a link that leads to itself
    return os.path.realpath(path) == os.path.realpath(other)


def write_files(contents: Mapping[Path, bytes], like: Path, *, force: bool) -> None:
    """Write files, each completely or not at all.

    Args:
        contents: content of each file, by path; a path that is a link leads to the file to write.
        like: file whose permissions the new files copy, so that a private resume stays private.
        force: whether existing files may be replaced.

    Raises:
        OSError: a file cannot be written, or another process has created one of the files and
            `force` is false; in that case, the message names the temporary files with the contents.
    """
    # write all temporary files first, so that a full disk leaves all existing files unchanged
    drafts: dict[Path, Path] = {}
    for number, (path, content) in enumerate(contents.items()):
        draft = through_links(path).with_name(f".revise-{os.getpid()}-{number}")
        try:
            draft.write_bytes(content)
            shutil.copymode(like, draft)
        except OSError:
            for file in (draft, *drafts.values()):
                file.unlink(missing_ok=True)
            raise
        drafts[path] = draft
    # another process may have created a file since `check_places`
    taken = [] if force else [path for path in drafts if os.path.lexists(path)]
    if taken:
        kept = ", ".join(f"the new {path.name} is in {draft}" for path, draft in drafts.items())
        raise OSError(f"{taken[0]} was created meanwhile; {kept}")
    for path, draft in drafts.items():
        draft.replace(through_links(path))
