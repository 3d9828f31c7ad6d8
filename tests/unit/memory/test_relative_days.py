import pytest

from memory.relative_days import unresolved, without

DAYS = {"2031-05-02"}


@pytest.mark.parametrize(
    ("fact", "word"),
    [
        ("The dentist is tomorrow (2031-05-02)", "tomorrow"),
        ("The dentist is tomorrow (Ann, 2031-05-03)", "tomorrow"),
        ("Ann moves next Friday", "next Friday"),
        ("The draft is due by Friday (Ann, 2031-05-02)", "by Friday"),
        ("Bob was ill last week", "last week"),
        ("Two weeks ago the lease ended", "Two weeks ago"),
        ("Ann fliegt morgen nach Rom", "morgen"),
        ("Der Vertrag endet nächsten Monat", "nächsten Monat"),
        ("Vor drei Wochen zog sie um", "Vor drei Wochen"),
        ("安明天去柏林", "明天"),
        ("他下个星期搬家", "下个星期"),
        ("三天前开始下雨", "三天前"),
        ("安明天去柏林（安，2031-05-02）", "明天"),
        ("下周三去柏林（2031-05-02）", "下周三"),
        ("The lease ends in twelve weeks", "in twelve weeks"),
    ],
)
def test_a_day_that_only_the_moment_of_speaking_names_is_found(fact: str, word: str) -> None:
    assert unresolved(fact, said_on=DAYS) == word


@pytest.mark.parametrize(
    "fact",
    [
        "The dentist is tomorrow (2031-05-03)",
        "The dentist is tomorrow (2031-05-03) (Ann, 2031-05-02)",
        "The fair is today (2031-05-02)",
        "Ann moves next Friday, the 9th of May (2031-05-02)",
        "Ann zieht nächsten Freitag, 9. Mai, um",
        "安明天（5月3日）去柏林",
        "去柏林：下周三（2031-05-07）",
        "Bob was ill last week (end of April 2031)",
        "Ann drinks tea in the morning (2031-05-02)",
        "Am Morgen trinkt sie Tee, jeden Morgen",
        "安每天喝茶",
        "Fridays are free",
    ],
)
def test_a_day_with_its_date_and_what_is_no_such_day_pass(fact: str) -> None:
    assert unresolved(fact, said_on=DAYS) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("due in three days, or by Friday", "due , or"),
        ("Rent 3 hours ago, now paid", "Rent , paid"),
        ("下周三交房租", "交房租"),
        ("drei Tage frei ab morgen", "frei ab"),
        ("on 2031-05-02 at 7", "on 2031-05-02 at 7"),
    ],
)
def test_what_counts_from_the_day_of_speaking_is_taken_out_with_spans_of_time(text: str, left: str) -> None:
    assert " ".join(without(text).split()) == left
