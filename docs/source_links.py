"""MkDocs hook: publish the repository's files that the pages link to.

Pages link to scripts, results and examples by relative paths outside `docs/`, which work in a
checkout. The hook copies these files into the site under `source/`. So the links work in the site,
too, and a strict build reports links without a target.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"\]\((?:\.\./)+([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the linked files of the repository to the site."""
    docs = Path(config.docs_dir)
    linked = {
        (page.parent / link[0].removeprefix("](")).resolve()
        for page in docs.rglob("*.md")
        for link in LINK.finditer(page.read_text(encoding="utf-8"))
    }
    for path in sorted(linked):
        # MkDocs would render a Markdown file as a page, on which its relative links have no target
        if path.is_file() and path.suffix != ".md" and not path.is_relative_to(docs):
            files.append(_source(path, docs.parent, config))
    return files


def _source(path: Path, root: Path, config: MkDocsConfig) -> File:
    """Return a site entry for a file outside `docs/`; its source path is relative to `docs/`."""
    name = path.relative_to(root).as_posix()
    file = File.generated(config, f"../{name}", abs_src_path=str(path))
    file.dest_uri = f"source/{name}"
    return file
