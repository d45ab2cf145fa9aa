"""A made-up table of daily weather for the work `table`: the same bytes every time. Standard library only."""

from __future__ import annotations

import datetime
import random

COLUMNS = ("id", "station", "day", "t_max", "rain", "quality", "observer")


def write(path: str, rows: int) -> None:
    """One row in twenty has the id of an earlier one, one in a thousand no temperature, or one that is none."""
    pick = random.Random(5)
    first = datetime.date(2000, 1, 1)
    days = [(first + datetime.timedelta(n)).isoformat() for n in range(7300)]
    stations = ["K" + "".join(pick.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3)) for _ in range(500)]
    rain = ("0", "0", "0", "0.2", "1.5", "12.7")
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(",".join(COLUMNS) + "\n")
        for n in range(rows):
            number = n if pick.random() < 0.95 else pick.randrange(n + 1)
            t_max = f"{pick.gauss(15, 12):.1f}" if pick.random() > 0.001 else pick.choice(("x", ""))
            file.write(
                f"{number},{pick.choice(stations)},{pick.choice(days)},{t_max},{pick.choice(rain)},{pick.choice('ABC')},"
                f"Observer {pick.randrange(2000)}\n"
            )
