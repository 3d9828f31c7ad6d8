"""Words that name a day only to whoever knows when they were said: yesterday, nächsten Freitag, 下周.

A list of words in English, German, Chinese and Japanese, and nothing clever. It is asked of each new fact whether it
holds such a word and no date besides the one on which it was said; and what a fact says without such words has to be
left once a rewrite has put the date in their place.
"""

from collections.abc import Collection

import regex

from memory.fact_stamp import stamped

_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SPANS = r"(?:day|night|week|weekend|month|quarter|year|spring|summer|autumn|fall|winter)"
_NUMBER = r"(?:(?<!\d)\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a few|a couple of)"
_TAGE = r"(?:Mon|Diens|Donners|Frei|Sams|Sonn)tags?|Mittwochs?|Sonnabends?"
_ZEITEN = (
    r"(?:Tage?[ns]?|Nacht|Wochen?|Wochenendes?|Monate?[ns]?|Quartals?|Jahre?[ns]?"
    r"|Frühlings?|Sommers?|Herbste?s?|Winters?)"
)
_ZAHL = r"(?:(?<!\d)\d{1,4}|eine[mrn]?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|ein paar|wenigen)"
_NEXT = r"(?:(?:über)?nächste|letzte|kommende|vorige|vergangene|diese)[nrsm]?"
_WEEK = r"(?:(?:周|週|星期|礼拜|禮拜)[一二三四五六日天末]?|月)"

_TODAY = r"(?i:\b(?:today|tonight|this (?:morning|afternoon|evening)|heute)\b)|今天|今日|今晚"
_RELATIVE = regex.compile(
    rf"(?P<today>{_TODAY})"
    r"|(?i:\b(?:the day (?:after tomorrow|before yesterday)|tomorrow|yesterday|last night)\b)"
    rf"|(?i:\b(?:next|last|this|coming|past) (?:{_DAYS}|{_SPANS})\b)"
    rf"|(?i:\b(?:by|until|till) {_DAYS}\b)"
    rf"|(?i:\b(?:in {_NUMBER} {_SPANS}s?(?: time)?|{_NUMBER} {_SPANS}s? ago)\b)"
    r"|(?i:\b(?:übermorgen|vorgestern|gestern)\b)|(?<!\b(?:am|jeden|guten) )\bmorgen\b"
    rf"|(?i:\b{_NEXT} (?:{_TAGE}|{_ZEITEN})\b)|(?i:\bbis (?:{_TAGE})\b)"
    rf"|(?i:\b(?:in|vor) {_ZAHL} {_ZEITEN}\b)"
    rf"|[明昨后後前]天|[明昨]日|去年|明年|今年|(?:下|上|这|這|本)(?:个|個)?{_WEEK}|来年"
    r"|[来來先今](?:月|週(?:の?[月火水木金土日]曜日?|末)?)"
    r"|(?<![\d一二两兩三四五六七八九十几幾])[\d一二两兩三四五六七八九十几幾]{1,6}(?:天|周|週|个月|個月|年)(?:之?[前后後])"
)
_LOOSE = regex.compile(  # what a date may stand for as well, though a fact needs none for it
    rf"{_RELATIVE.pattern}|(?i:\b(?:now|currently|recently|soon|ago|heute|morgen|gestern"
    rf"|(?:{_NUMBER}|{_ZAHL})\s+(?:{_SPANS}s?|{_ZEITEN}|hours?|minutes?|stunden?|minuten?)"
    rf"|(?:this|next|last|coming|nächste[nrsm]?|letzte[nrsm]?)\s+\p{{L}}+|{_DAYS}s?|{_TAGE})\b)"
)
_MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
_DATE = regex.compile(
    rf"\b(?:19|2\d)\d{{2}}(?!\d)|\b\d{{1,2}}\.\s?\d{{1,2}}\.|\b\d{{1,2}}/\d{{1,2}}\b|\d{{1,2}}月\d{{1,2}}[日号號]"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}\b|\b{_MONTH}\.?\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\b",
    regex.IGNORECASE,
)


def unresolved(fact: str, *, said_on: Collection[str]) -> str:
    """Return the first such word of a fact without a date, "" if there is none; `said_on` are the days of the talk.

    A date in brackets right behind such a word resolves it, unless it can only be the day on which it was said.
    """
    found = _RELATIVE.search(fact)
    if found is None:
        return ""
    stamp = stamped(fact)
    resolves = (
        stamp is not None
        and not stamp.name
        and not fact[found.end() : stamp.start].strip()
        and (found["today"] is not None or stamp.day not in said_on)
    )
    told = fact if stamp is None or resolves else fact[: stamp.start]
    return "" if _DATE.search(told) else found[0]


def without(text: str) -> str:
    """Return a text without the words that count from the day on which it was said, spans of time among them."""
    return _LOOSE.sub(" ", text)
