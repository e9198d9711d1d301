"""Recognition of English words, and of other forms of a word: spelling, acronym, degree.

The words come from the frequency dictionary of symspellpy, and from `spelling` in `lexicon.toml`.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from importlib.resources import files

from rapidfuzz import process
from rapidfuzz.distance import OSA, LCSseq

from resume_gym.text.lines import GLUE, LEXICON, Content, parts, read, stem
from resume_gym.text.verbs import NOUNS, VERB_STEMS

_ADDED = frozenset(LEXICON["spelling"]["words"]) | frozenset(LEXICON["claims"]["tools"])
_DEGREES: dict[str, str] = LEXICON["degrees"]
_PREFIX = re.compile(
    r"(?:re|de|un|non|pre|co|over|under|multi|micro|auto|inter|sub|anti|mis)"
    r"(?=[a-z]{4})"
)
_ENDINGS = (("s", ""), ("es", ""), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"), ("er", "e"))
# patterns that turn British spellings into American ones, or the reverse
_SPELLINGS = tuple(
    (re.compile(old), new)
    for pair in (
        (r"is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)", "iz"),
        (r"iz(?=(?:e|ed|es|ing|ation|ations|er|ers)$)", "is"),
        (r"ys(?=(?:e|ed|es|ing|er|ers)$)", "yz"),
        (r"yz(?=(?:e|ed|es|ing|er|ers)$)", "ys"),
        ("our", "or"), ("or", "our"), ("tre(?=s?$)", "ter"), ("ter(?=s?$|ed$)", "tre"),
        ("ogue", "og"), ("og(?=s?$)", "ogue"), ("amme", "am"), ("ae", "e"), ("ll", "l"),
        ("l(?=ed$|ing$|ers?$|or$|ment$)", "ll"), ("ence(?=s?$)", "ense"), ("tic", "tis"),
        ("centered", "centred"), ("math", "maths"),
    )
    for old, new in [pair]
)  # fmt: skip
_LEAST = 4  # only a longer word can be misspelt
_COMMON = 1_000_000  # minimum frequency of a word to which a misspelt word is corrected
_LIKELIER = 10  # how many times more frequent it must be than any other word as near


@cache
def _frequencies() -> dict[str, int]:
    path = files("symspellpy").joinpath("frequency_dictionary_en_82_765.txt")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return {word: int(count) for word, count in (line.split(" ", 1) for line in lines)}


@cache
def _dictionary() -> frozenset[str]:
    return _ADDED.union(_frequencies())


@cache
def _initial(letter: str) -> tuple[str, ...]:
    return tuple(word for word in _frequencies() if word[0] == letter)


@lru_cache(maxsize=65536)
def is_word(word: str) -> bool:
    """Return whether a lower-case word, or its base, is English in British or American spelling."""
    words = _dictionary()
    bare = {word, _PREFIX.sub("", word, count=1)}
    bare |= {pattern.sub(new, one, count=1) for one in bare for pattern, new in _SPELLINGS}
    bases = (
        one.removesuffix(ending) + instead
        for one in bare
        for ending, instead in _ENDINGS
        if one.endswith(ending)
    )
    return not bare.isdisjoint(words) or any(base in _ADDED for base in bases)


def strange(content: Content, known: frozenset[str]) -> str:
    """Return the first word of a line that is no English word; empty if there is none.

    Names, and words in `known`, are skipped. So are all words of a line that is not in English.
    """
    names = _names(content)
    odd = [
        piece
        for word in content.words
        if word not in known and word not in names
        for piece in parts(word)[-3:]
        if len(piece) > 2 and piece.isascii() and piece.isalpha() and piece not in known
        if piece not in names and not is_word(piece)
    ]
    if odd and 2 * sum(not is_word(word) for word in content.words) <= len(content.words):
        return odd[0]
    return ""


def _names(content: Content) -> set[str]:
    """Return the names of a line in lower case, without plain words that open a sentence."""
    return {name.text.lower() for name in content.names if not name.head or not name.text.istitle()}


def _misspelt(word: str) -> bool:
    return len(word) > _LEAST and word.isalpha() and not is_word(word)


@lru_cache(maxsize=8192)
def corrects(new: str, old: str) -> bool:
    """Return whether `new` is the correct spelling of `old`: "received" for "recieved".

    It is a common word with the same first letter, and no other word as near is nearly as common.
    A word of five letters may only have letters in the wrong order, since many names of tools are
    as near to a common word: "canva", "spacy".
    """
    most = 1 + (len(old) > 2 * _LEAST - 2)
    if new[0] != old[0] or not new.isalpha() or not (_misspelt(old) and is_word(new)):
        return False
    steps = OSA.distance(old, new, score_cutoff=most)
    if steps > most or (len(old) == _LEAST + 1 and sorted(old) != sorted(new)):
        return False
    count = _frequencies().get(new, 0)
    near = process.extract_iter(old, _initial(old[0]), scorer=OSA.distance, score_cutoff=steps)
    others = (_frequencies()[word] for word, _, _ in near if word != new)
    likely = count >= max(_COMMON, _LIKELIER * max(others, default=0))
    return likely or (new in _ADDED and _same_letters(old, new))


def corrections(old: Content, new: Content) -> dict[str, str]:
    """Map each misspelt word of `old` that `new` corrects to its correct spelling.

    In a word with a capital letter, letters may be missing, superfluous or in the wrong order, but
    not exchanged, as another name may have them ("Axure", "Azure"). Words with inner capital
    letters are never misspelt.
    """
    gone = [word for word in {*old.words} - {*new.words} if _misspelt(word)]
    come = {*new.words} - {*old.words} if gone else ()
    names = {name.text.lower(): name.text.istitle() for name in old.names}
    return {
        word: other
        for word in gone
        for other in come
        if corrects(other, word)
        if word not in names or (names[word] and _same_letters(word, other))
    }


def _same_letters(word: str, other: str) -> bool:
    kept = LCSseq.similarity(word, other) == min(len(word), len(other))
    return kept or sorted(word) == sorted(other)


def respelt(old: Content, new: Content, known: AbstractSet[str]) -> Content:
    """Return `old` with its misspelt words spelt as in `new`; `old` itself if there are none.

    Names and words in `known` are kept. A word that opens a sentence is corrected only to a verb or
    to a noun of action, since it may be a name, too.
    """
    kept, heads = _names(old) | known, {name.text.lower() for name in old.names}
    right = {
        word: other
        for word, other in corrections(old, new).items()
        if word not in kept
        if word not in heads or other in NOUNS or stem(other) in VERB_STEMS
    }
    return read(re.sub(r"\w+", lambda m: _like(m[0], right), old.body)) if right else old


def _like(word: str, right: dict[str, str]) -> str:
    """Return the correct spelling of a word, with a capital letter if the word has one."""
    other = right.get(word.lower(), word)
    return other.capitalize() if word[0].isupper() and other != word else other


@lru_cache(maxsize=8192)
def forms(new: Content, old: Content) -> frozenset[str]:
    """Return the words of `new` that `old` has in another form: spelling, acronym or degree."""
    if not set(new.words).difference(old.words):
        return frozenset()
    return frozenset({*corrections(old, new).values(), *_abbreviated(new, old)})


def _abbreviated(new: Content, old: Content) -> Iterator[str]:
    """Yield the words of `new` that abbreviate words of `old`, or write out an abbreviation."""
    for long, short in ((new.words, old.words), (old.words, new.words)):
        for word in {*short} - GLUE:
            if word in _DEGREES:
                runs = _runs(long, _DEGREES[word].split())
            elif 1 < len(word) < 6 and (word not in long or not is_word(word)):
                runs = _spelt_out(long, word)
            else:
                continue
            for run in runs:
                yield from run if long is new.words else (word,)


def _runs(words: Sequence[str], run: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield `run` once for each place at which it occurs in `words`."""
    for start in range(len(words) - len(run) + 1):
        if list(words[start : start + len(run)]) == run:
            yield run


def _spelt_out(words: Sequence[str], acronym: str) -> Iterator[Sequence[str]]:
    """Yield runs of words whose initials, with or without function words, form the acronym."""
    for start, word in enumerate(words):
        if word[0] != acronym[0] or word in GLUE:
            continue
        for stop in range(start + 2, min(start + 2 * len(acronym), len(words)) + 1):
            run = words[start:stop]
            telling = [one[0] for one in run if one not in GLUE]
            if acronym in ("".join(telling), "".join(one[0] for one in run)):
                yield run
                break
