"""Words that two texts may share: stems, or pairs of characters where no spaces are written."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SPACELESS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_STOP = frozenset(
    re.findall(
        r"\S+",
        """
        a about all also am an and any are as at be been but by can could did do does for from get give
        had has have he her here him his how i i'd i'll i'm i've if in into is it it's its just let like
        make may me might more most much must my need no not now of on one only or our out over please
        shall she should so some such tell than that the their them then there these they this those to
        too up us use very want was we we're were what what's when where which who whom whose why will
        with would yes yet you you're your yours know remember say said md note notes memory
        """,
    )
)
_SAME = {
    "favourite": "prefer",
    "favorite": "prefer",
    "preference": "prefer",
    "preferred": "prefer",
    "love": "prefer",
    "loves": "prefer",
    "likes": "prefer",
    "liked": "prefer",
    "enjoy": "prefer",
    "called": "nam",
    "nickname": "nam",
    "named": "nam",
    "due": "deadlin",
    "decision": "decid",
    "decided": "decid",
    "agreed": "decid",
}
_ENDINGS = ("ations", "ation", "ingly", "ings", "ing", "edly", "ied", "ies", "ed", "es", "ly", "s", "e")


def stems(text: str) -> set[str]:
    """Return the stems of the meaningful words; words for liking count as one word, those for naming too."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    found = {pair for run in _SPACELESS.findall(plain) for pair in _pairs(run)}
    for word in _WORD.findall(_SPACELESS.sub(" ", plain)):
        if word not in _STOP and (len(word) > 1 or word.isdigit()):
            found.add(_SAME.get(word, _stem(word)))
    if re.search(r"\b(?:do|did|would|i|you|we|they) (?:really )?like\b", plain):
        found.add("prefer")  # "like" alone is too often a comparison
    return found


def _stem(word: str) -> str:
    base = word.split("'", 1)[0]
    for ending in _ENDINGS:
        if base.endswith(ending) and len(base) - len(ending) >= 3:
            return base[: -len(ending)]
    return base


def _pairs(run: str) -> set[str]:
    return {run[at : at + 2] for at in range(len(run) - 1)} or {run}
