"""The English words that say when: names of days, months and seasons, numbers, and the patterns made of them. Pure."""

from __future__ import annotations

import re

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each, as the northern half of the world counts them."""
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = ("first", "second", "third", "fourth")
FEW = (2, 5)
"""What "a few" and "several" stand for: from, to."""
DAYTIMES = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}
"""Hours of the day, from and up to; a night lasts until the next morning."""

_NAMES = "|".join(MONTHS)
_SHORT = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
MONTH = rf"(?P<month>(?:{_NAMES}|{_SHORT}))\b\.?"
FULL_MONTH = rf"(?P<full>{_NAMES}|sept)\b"
YEAR = r"(?P<year>(?:19|20)\d\d)(?![\d-]|[.,]\d)"
FIRST_DAY = r"(?P<first>\d{1,2})(?:st|nd|rd|th)?\b"
TO = r"(?(between) and |(?: (?:to|until|till|through|thru) |\s*[-–—]\s*))(?:the )?"
"""Joins two days; after the group ``between``, "and" does."""
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
NO_MONTH = "".join(
    rf"(?<!\b{name}\s)" for name in f"{_NAMES}|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec".split("|")
)
"""Before a day: in "May 5 to 7 June" the 5 is none of June."""
NO_COUNT = rf"(?!\s+(?:of )?(?:{_NAMES}|{_SHORT})\b|:\d|\s*[ap]\.?m\b|\s+(?:minute|hour|day|week|month|year|time)s?\b)"
"""After a day that may be none: another month, a time of day or what is counted."""
WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})\b"
SEASON = rf"(?P<season>{'|'.join(SEASONS)})\b"
QUARTER = rf"(?:the )?(?P<quarter>q[1-4]|(?:{'|'.join(ORDINALS)}|1st|2nd|3rd|4th|last) quarter)"
UNIT = r"(?P<unit>minute|hour|day|week(?:end)?|month|quarter|year)s?\b"
COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(NUMBERS)}|(?:a )?couple(?: of)?|(?:a )?few|several|an?)"
DAYTIME = rf"(?P<daytime>{'|'.join(DAYTIMES)})\b"

_APOSTROPHES = dict.fromkeys((0x2018, 0x2019, 0x02BC, 0xFF07), "'")


def plain(text: str) -> str:
    """The text in lower case with straight apostrophes, of the same length: places in it are places in the text."""
    lowered = "".join(low if len(low := one.lower()) == 1 else one for one in text)
    return lowered.translate(_APOSTROPHES)


def counted(words: str) -> tuple[int, int]:
    """What a number says, from and to: the same for all but "a few"."""
    if words.isdecimal():
        return int(words), int(words)
    if "few" in words or words == "several":
        return FEW
    if "couple" in words:
        return 2, 2
    number = NUMBERS.index(words) + 1 if words in NUMBERS else 1
    return number, number


def month_number(name: str) -> int:
    """1 to 12, of the month's name or its first letters."""
    return next(number for number, month in enumerate(MONTHS, 1) if month.startswith(name[:3]))


def quarter_number(name: str) -> int:
    """1 to 4, of "q3", "third quarter", "3rd quarter" or "last quarter"."""
    if name.startswith("last"):
        return len(ORDINALS)
    digit = name.removeprefix("q")[0]
    return int(digit) if digit.isdecimal() else ORDINALS.index(name.split(maxsplit=1)[0]) + 1


def pattern(text: str) -> re.Pattern[str]:
    """A pattern that begins and ends with whole words; one space stands for any white space."""
    return re.compile(rf"(?<!\w)(?:(?<!-)|(?<=mid-))(?:{text})(?!\w)".replace(" ", r"\s+"))


def lead(text: str) -> re.Pattern[str]:
    """A pattern of what stands right before something, up to its end."""
    return re.compile(rf"(?<![\w-])(?:{text})\s*$".replace(" ", r"\s+"))
