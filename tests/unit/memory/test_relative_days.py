import pytest

from memory.relative_days import unresolved

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
        "Bob was ill last week (end of April 2031)",
        "Ann drinks tea in the morning (2031-05-02)",
        "Am Morgen trinkt sie Tee, jeden Morgen",
        "安每天喝茶",
        "Fridays are free",
    ],
)
def test_a_day_with_its_date_and_what_is_no_such_day_pass(fact: str) -> None:
    assert unresolved(fact, said_on=DAYS) == ""
