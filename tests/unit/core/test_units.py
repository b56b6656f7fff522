import pytest

from firth.core.config import parse_duration, show_bytes, show_count, show_duration
from firth.core.errors import FirthError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("20m", 1200),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 2 H ", 7200),
        ("1d", 86400),
        ("0.5", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "-5m", "m", "5mm", "0", "0s", "1e3", "nan", "٣m x"])
def test_not_durations(text: str) -> None:
    with pytest.raises(FirthError, match=r"is not a duration: .* like 90s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0s"),
        (4.21, "4.2s"),
        (59.99, "1m00s"),
        (185, "3m05s"),
        (3599.7, "1h00m"),
        (7800, "2h10m"),
        (90000, "25h00m"),
    ],
)
def test_show_duration(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (950, "950"),
        (9999, "9,999"),
        (12345, "12.3k"),
        (123456, "123k"),
        (999_999, "1.00M"),
        (4.56e6, "4.56M"),
        (1.2e9, "1.20G"),
        (3e12, "3000G"),
    ],
)
def test_show_count(number: float, shown: str) -> None:
    assert show_count(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(512, "512 B"), (3400, "3.4 kB"), (3_400_000, "3.4 MB"), (5e12, "5000.0 GB")]
)
def test_show_bytes(number: float, shown: str) -> None:
    assert show_bytes(number) == shown
