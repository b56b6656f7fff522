"""Event files as TensorBoard reads them: the check sums, the records, the messages."""

import struct
from pathlib import Path

from firth.training.checkpoints import History, crc32c, event, event_files, record


def records(data: bytes) -> list[bytes]:
    """The messages of a file, their check sums compared."""

    def masked(part: bytes) -> int:
        found = crc32c(part)
        return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF

    found, at = [], 0
    while at < len(data):
        (length,), (seal,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
        assert seal == masked(data[at : at + 8])
        message = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(message),)
        found.append(message)
        at += 16 + length
    return found


def test_the_check_sum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # of the standard's catalogue
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def test_an_event_is_the_message_of_the_protocol() -> None:
    message = event(2.0, 300, {"train/loss": 0.5})
    value = b"\x0a\x0atrain/loss\x15" + struct.pack("<f", 0.5)
    summary = b"\x0a" + bytes([len(value)]) + value
    assert message == b"\x09" + struct.pack("<d", 2.0) + b"\x10\xac\x02" + b"\x2a" + bytes([len(summary)]) + summary
    assert records(record(message)) == [message]


def test_a_history_also_writes_events_where_they_are_wanted(tmp_path: Path) -> None:
    line = {"event": "train", "step": 3, "steps": 9, "loss": 2.0}
    (tmp_path / "run" / "seeds" / "0").mkdir(parents=True)
    with event_files(tmp_path / "run"):
        History(tmp_path / "run" / "seeds" / "0" / "metrics.jsonl", 0).add(line)
        History(tmp_path / "other.jsonl", 0).add(line)  # of another run
    (path,) = (tmp_path / "run" / "tensorboard" / "seeds" / "0").iterdir()
    first, second = records(path.read_bytes())
    assert b"brain.Event:2" in first
    assert b"train/loss" in second
    assert b"steps" not in second
    History(tmp_path / "run" / "metrics.jsonl", 0).add(line)
    assert not list((tmp_path / "run" / "tensorboard").glob("events*"))
