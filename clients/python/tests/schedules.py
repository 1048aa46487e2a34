"""Compare this client with schedules that Go has played: make client-schedules.

Each line of the file is a case of conduct.json.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from simulated import check  # noqa: E402

MOST_SHOWN = 5


def compare(case: dict) -> None:
    """Where a session ends, or the breaker is read, while another delivery may go on, either may come first."""
    try:
        check(case)
    except AssertionError:
        check(case, patient=True)


def main(path: str) -> int:
    logging.disable()  # the client warns of dead letters
    compared, differ = 0, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            compared += 1
            try:
                compare(case)
            except Exception as err:  # a client that fails differs too
                differ.append(case["name"])
                if len(differ) <= MOST_SHOWN:
                    print(f"{case['name']}: {err!r}\n{line}", file=sys.stderr)
    print(f"clients/python: {compared} schedules compared, {len(differ)} differ")
    return 1 if differ or not compared else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
