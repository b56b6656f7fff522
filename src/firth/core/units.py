"""Parsing and formatting of durations, counts and sizes."""

import re

from firth.core.errors import FirthError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Seconds in ``90s``, ``20m``, ``1h30m`` or a plain number of seconds."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        seconds = float(compact)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", compact):
        seconds = sum(
            float(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", compact)
        )
    else:
        raise FirthError(f"'{text}' is not a duration: write it like 90s, 20m or 1h30m")
    if seconds <= 0:
        raise FirthError(f"'{text}' is not a duration: it must be greater than zero, like 90s or 20m")
    return seconds


def show_duration(seconds: float) -> str:
    """``4.2s``, ``3m05s``, ``2h10m``."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def show_count(number: float) -> str:
    """``950``, ``12.3k``, ``4.56M``, ``1.20G``."""
    if abs(number) < 1e4:
        return f"{number:,.0f}"
    divisor, mark = next(
        ((size, mark) for size, mark in ((1e3, "k"), (1e6, "M")) if abs(number) < 999.5 * size), (1e9, "G")
    )
    scaled = number / divisor
    return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f}{mark}"


def show_bytes(number: float) -> str:
    """``512 B``, ``3.4 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
