"""Why a step failed. No text contains a password."""

from __future__ import annotations

from enum import Enum


class StrikesError(Exception):
    """The base of every error of this package, except those that a handler raises to steer its message."""


class SettingError(StrikesError, ValueError):
    """A setting that is refused. The text names the setting, its value, and the allowed values."""

    def __init__(self, field: str, value: object, want: str) -> None:
        super().__init__(f"{field} must be {want}, got {value!r}")
        self.field = field


def is_number(value: object) -> bool:
    """Whether a setting is a number. A text, as the environment gives it, is none."""
    return isinstance(value, (int, float))


class Fault(str, Enum):
    """Why the store failed."""

    UNREACHABLE = "unreachable"
    SLOW = "slow"
    READ_ONLY = "read-only"
    OUT_OF_SPACE = "out of space"
    LOADING = "loading"
    BUSY = "busy"
    FAILOVER = "failover"
    DENIED = "denied"
    OTHER_KIND = "of another kind"
    NOT_SET_UP = "not set up"  # it has no database of that number
    OTHER = "error"


class StoreError(StrikesError):
    """The store did not take a step, or did not say so.

    After DENIED, OTHER_KIND and NOT_SET_UP it was not taken; otherwise it may have been.
    """

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(f"store {fault.value}: {text}")
        self.fault = fault

    @property
    def not_taken(self) -> bool:
        """Whether the store refused the step without taking it."""
        return self.fault in (Fault.DENIED, Fault.OTHER_KIND, Fault.NOT_SET_UP)


class ForeignError(StoreError):
    """Another program wrote a value of another kind to a key of this package. The step was not taken."""

    def __init__(self, text: str) -> None:
        super().__init__(Fault.OTHER, text)

    @property
    def not_taken(self) -> bool:
        return True


class ReplyError(StoreError):
    """The store's reply is not that of the script. Decide nothing from it."""

    def __init__(self, text: str) -> None:
        super().__init__(Fault.OTHER, text)


# The error codes in the replies of servers.
_CODES = (
    ("READONLY", Fault.READ_ONLY), ("OOM", Fault.OUT_OF_SPACE), ("MISCONF", Fault.READ_ONLY),
    ("LOADING", Fault.LOADING), ("BUSY", Fault.BUSY), ("MASTERDOWN", Fault.FAILOVER), ("CLUSTERDOWN", Fault.FAILOVER),
    ("TRYAGAIN", Fault.FAILOVER), ("MOVED", Fault.FAILOVER), ("ASK", Fault.FAILOVER), ("NOREPLICAS", Fault.FAILOVER),
    ("NOAUTH", Fault.DENIED), ("WRONGPASS", Fault.DENIED), ("NOPERM", Fault.DENIED), ("ERR AUTH", Fault.DENIED),
    ("ERR invalid password", Fault.DENIED), ("ERR Protocol error: unauthenticated", Fault.DENIED),
    ("ERR The user executing the script can't", Fault.DENIED), ("ERR ACL failure in script", Fault.DENIED),
    ("ERR unknown command", Fault.OTHER_KIND), ("ERR DB index is out of range", Fault.NOT_SET_UP),
    ("ERR SELECT is not allowed in cluster mode", Fault.NOT_SET_UP),
)


def is_foreign(text: str) -> bool:
    """Whether a server's error is about a key of another type, or a string that is no record."""
    return "WRONGTYPE" in text or "not a record of strikes" in text


def fault_of(text: str) -> Fault:
    """Classify the text of a server's error, with or without the ERR that redis-py takes off."""
    text = text.removeprefix("ERR ")
    if text.startswith("Error running script"):  # Redis 6 wraps the error of a script
        if "The user executing the script can't" in text:
            return Fault.DENIED
        text = text.partition(": -")[2]
    text = text.removeprefix("ERR ")
    for code, fault in _CODES:
        if text.startswith(code.removeprefix("ERR ")):
            return fault
    return Fault.OTHER
