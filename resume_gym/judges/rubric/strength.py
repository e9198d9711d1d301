"""Detect words that claim more than those they replace: "most" -> "all", "planned" -> "launched".

The words are in the table `strength` of `lexicon.toml`. All rules are directional: a line that
claims less than its original is no lie.
"""

import re
from collections.abc import Iterator, Sequence

from resume_gym.judges.rubric.accusations import Claim, cut
from resume_gym.judges.rubric.progress import stands
from resume_gym.text.lines import GLUE, LEXICON, Content, any_of, is_figure, is_rate, read, stem
from resume_gym.text.style import head, is_past, is_weak
from resume_gym.text.thresholds import FEW
from resume_gym.text.verbs import GOALS

_TABLE = LEXICON["strength"]
_Scale = list[frozenset[str]]


def _said(key: str, texts: Sequence[Content]) -> bool:
    return any(stands(key, {*content.keys}) for content in texts)


def _scales(name: str) -> list[_Scale]:
    return [[frozenset(map(stem, words)) for words in scale] for scale in _TABLE[name]]


_DEEDS = _scales("deeds")
_SIZES = [{key: n for n, group in enumerate(scale) for key in group} for scale in _scales("sizes")]
_UNREALISED = frozenset(map(stem, _TABLE["unrealised"]))
_VAGUE_COUNTS = frozenset(_TABLE["counts"])
_RATES = tuple(f"~{span}" for span in _TABLE["rates"])  # the most frequent first
_GREATER = _VAGUE_COUNTS.union(_RATES, *_SIZES)
_WEEKDAYS = frozenset(_TABLE["weekdays"])
_LIMITS = {kind: any_of(words) for kind, words in _TABLE["limits"].items()}
_LIMITS["share"] = re.compile(rf"{_LIMITS['share'].pattern}|\bco-(?=\w)")
_PARTS = re.compile(rf"(?:was |have been |i )*(?:a |an )?(?:{'|'.join(_TABLE['parts'])})\b")
_WHOLES = frozenset(map(stem, _TABLE["wholes"]))
_PRIZES = frozenset(map(stem, _TABLE["prizes"]))
_LAPSED = re.compile(
    rf"[,(;\u2013\u2014|-] ?(?:now |since |has )?(?:{'|'.join(_TABLE['lapsed'])})\b[^,;()|]*\)?"
)
_CLAUSES = frozenset(("and", "or", "but", "which", "that", "so", "while", "after", "before", "by"))
_DUTY = re.compile(
    r"(?:i )?(?:(?:was|am) )?(?:(?:also|mainly|primarily|solely) )?"
    rf"(?P<duty>{'|'.join([*_TABLE['errand'], *_TABLE['charge']])})\b"
)
_STEM = 5  # two words that share this many first letters count as forms of one word
_MEANS = frozenset(("by", "with", "through", "using", "via"))
_LEVEL = any_of(_TABLE["levels"])
# one pattern, since most lines contain no limit at all
_ANY = re.compile("|".join(pattern.pattern for pattern in _LIMITS.values()))


def overstated(old: Content, new: Content, known: Sequence[Content], verb: str) -> Iterator[Claim]:
    """Yield a claim for each word that makes a rewritten line claim more than its original.

    Args:
        old: the original line.
        new: the rewritten line.
        known: the original line and the source that supports the rewrite, if any.
        verb: class of the opening verb of `new`; see `licences.Rewrite.verb`.
    """
    if not new.tokens or not old.tokens:
        return
    if aims(old, new) in _TABLE["errand"] and not _said(new.keys[head(new).at], known[1:]):
        yield Claim("overstatement", new.body, f'"{cut(new.body)}" was only a task.', 0.75)
    if "won" in new.tokens and not any(_PRIZES & {*content.keys} for content in known):
        yield Claim("overstatement", "won", f'Nothing says "won" in "{cut(new.body)}".', 0.75)
    for weaker, stronger in (*_deeds(old, new, known, verb), *_sizes(old, new, known)):
        reason = f'"{stronger}" in "{cut(new.body)}" claims more than "{weaker}".'
        yield Claim("overstatement", stronger, reason, 0.75)
    for weaker, stronger in _beside_figures(old, new, known):
        reason = f'"{stronger}" replaces "{weaker}" beside a figure in "{cut(new.body)}".'
        yield Claim("exchanged", stronger, reason, 0.7)
    for limit in _dropped(old, new, known):
        yield Claim("left out", limit, f'"{cut(new.body)}" leaves out "{limit}".', 0.75)


def raised(old: Content, new: Content) -> Iterator[Claim]:
    """Yield a claim if an item of a list has lost or raised its level: "basic Polish".

    A licence that has lost its remark "(expired 2019)" also gives a claim.
    """
    ended = lapsed(old)
    whose = read(old.body[: old.body.lower().index(ended)]).keys[-1:] if ended else ()
    if whose and {*whose} <= {*new.keys} and not _LAPSED.search(new.body.lower()):
        reason = f'"{cut(new.body)}" leaves out "{ended.strip(" ,;()|-")}".'
        yield Claim("level", ended, reason, 0.75)
    if not _LEVEL.search(old.body) or is_weak(old) or any(map(is_past, old.tokens)):
        return  # no list
    items = [read(item.strip()) for item in re.split(r"[,;:|()]", new.body) if item.strip()]
    for item in re.split(r"[,;:|()]", old.body):
        level = _LEVEL.search(item.lower())
        rest = read(_LEVEL.sub(" ", item.lower()).strip()).telling if level else ()
        for one in items:
            if rest and {*rest} <= {*one.telling} and not _LEVEL.search(one.body.lower()):
                reason = f'"{one.body}" leaves out "{level[0] if level else ""}".'
                yield Claim("level", one.body, reason, 0.75)


def lapsed(content: Content) -> str:
    """Return the remark that a listed item is not valid, "(expired 2019)"; empty if none."""
    found = _LAPSED.search(content.body.lower())
    return found[0] if found and not any(map(is_past, content.tokens[:1])) else ""


def aims(old: Content, new: Content) -> str:
    """Return the opening of a duty if `new` claims that its goal was reached; empty otherwise.

    "Tasked with raising sales" does not say that sales were raised. Figures in `old` would support
    this, and so would the means: "Responsible for raising sales by calling back".
    """
    found, at = _DUTY.match(old.body.lower()), head(old).at
    if not (found and new.tokens) or old.figures or old.tokens[at] not in GOALS:
        return ""
    duty = found["duty"]
    if duty in _TABLE["charge"] and not _MEANS.isdisjoint(old.tokens[at:]):
        return ""
    done = new.tokens[head(new).at]
    same = is_past(done) and stands(new.keys[head(new).at], {old.keys[at]})
    return duty if same and not is_weak(new) else ""


def _deeds(
    old: Content, new: Content, known: Sequence[Content], verb: str
) -> Iterator[tuple[str, str]]:
    """Yield (old verb, new verb) if the new opening verb claims more than the old one."""
    was, now = head(old).at, head(new).at
    did, does = old.keys[was], new.keys[now]
    if verb == "kept" or is_weak(new) or _said(does, known[1:]):
        return
    told = {key for token, key in zip(old.tokens, old.keys, strict=True) if is_past(token)}
    doing = {k for t, k in zip(old.tokens, old.keys, strict=True) if t.endswith("ing")}
    if does in _WHOLES and _PARTS.match(old.body.lower()) and not stands(does, told | doing):
        yield old.tokens[0], new.tokens[now]
        return
    if did in new.keys:
        return
    said = (told | doing) - {did}
    if old.tokens[was + 1 : was + 2] == ("and",) and any(
        map(is_past, old.tokens[was + 2 : was + 3])
    ):
        return  # "Planned and oversaw the move"
    if did in _UNREALISED and does in old.keys and does not in told:
        yield old.tokens[was], new.tokens[now]  # "Proposed replacing the boiler" -> "Replaced"
    for weak, strong in _DEEDS:
        if did in weak and does in strong and not stands(does, said):
            yield old.tokens[was], new.tokens[now]
            return


def _sizes(old: Content, new: Content, known: Sequence[Content]) -> Iterator[tuple[str, str]]:
    """Yield (old word, new word) if the new one is higher on a scale (how often, many, large)."""
    told = {key for content in known for key in content.keys}
    come = [key for key in new.keys if key not in told]
    joined = "and" in {*new.tokens} - {*old.tokens}
    if not joined and _GREATER.isdisjoint(come):
        return
    gone = [key for key in old.keys if key not in new.keys]
    if len({*come}) > FEW or len({*gone}) > FEW:
        return  # a freely reworded line
    for levels in _SIZES:
        lower = [key for key in gone if key in levels]
        for key in come:
            if key in levels and lower and min(map(levels.__getitem__, lower)) < levels[key]:
                yield lower[0], key
    rates = [key for key in gone if key in _RATES[1:] or key in _WEEKDAYS]
    for key in come:
        if rates and key in _RATES and all(_rank(key) < _rank(rate) for rate in rates):
            yield _shown(rates[0]), _shown(key)
        if key in _VAGUE_COUNTS and any(k[1:] in ("2", "3") for k in gone if is_figure(k)):
            yield "two", key
    # "A or B" -> "A and B"
    ends = {(a, b) for a, joint, b in _triples(old) if joint == "or"}
    both = {(a, b) for a, joint, b in _triples(new) if joint == "and"}
    if joined and ends & both:
        yield "or", "and"


def _beside_figures(
    old: Content, new: Content, known: Sequence[Content]
) -> Iterator[tuple[str, str]]:
    """Yield (old word, new word) if an unsupported word replaces a word after a figure."""
    told = {key for content in known for key in content.keys}
    fresh = {key for key in new.telling if not stands(key, told)}
    if len(fresh) >= FEW or len({*old.telling} - {*new.telling}) > FEW:
        return  # a freely reworded line
    for at, key in enumerate(new.keys):
        if not is_figure(key) or key not in old.keys:
            continue
        place = old.keys.index(key)
        was = old.keys[place + 1 : place + 5]
        near = [k for k in was if k in old.telling and k not in new.keys]
        for n in range(at + 1, min(at + 5, len(new.keys))):
            one = new.keys[n]
            if one in _CLAUSES:
                break
            # "autism" -> "autistic" is the same word, and `_sizes` handles "usually" -> "mostly"
            other = one[:_STEM] not in {key[:_STEM] for key in old.keys} and one not in _GREATER
            if near and one in fresh and other and not (is_figure(one) or is_rate(one)):
                yield near[0], new.tokens[n]
                return


def _rank(key: str) -> int:
    """Return the index of a rate in `_RATES`; a weekday counts as once a week."""
    return _RATES.index(key if is_rate(key) else "~week")


def _shown(key: str) -> str:
    return key.replace("~", "every ")


def _triples(content: Content) -> Iterator[tuple[str, str, str]]:
    tokens = content.tokens
    return zip(tokens, tokens[1:], tokens[2:], strict=False)


def _dropped(old: Content, new: Content, known: Sequence[Content]) -> Iterator[str]:
    """Yield each limit, such as "up to", that the line dropped while keeping the limited words."""
    body, now = old.body.lower(), new.body.lower()
    if not _ANY.search(body):
        return
    for kind, pattern in _LIMITS.items():
        # "Ran the camp with a colleague" still shares the work, and `dropped_hedges` knows hedges
        shared = kind == "share" and ("with" in new.tokens or head(old).kind == "hedge")
        if shared or pattern.search(now):
            continue
        for found in pattern.finditer(body):
            rest = read(old.body[found.end() :].strip())
            follows = [key for t, key in zip(rest.tokens, rest.keys, strict=True) if t not in GLUE]
            figures = [is_figure(key) for key in rest.keys]
            near = any(figures[:1] if kind == "amount" else figures[: FEW + 1])
            if kind in ("amount", "ability") and not near:
                continue
            if kind == "plan" and not found.start():
                continue  # the opening verb; see `_deeds`
            if kind == "share" and body[: found.start()].endswith((", ", "as ")):
                continue  # "as part of an effort", "several issues, mostly leaks"
            if not follows or follows[0] not in new.keys:
                continue
            if any(not pattern.search(c.body.lower()) and follows[0] in c.keys for c in known[1:]):
                continue  # the source says it without the limit
            yield found[0]
            break
