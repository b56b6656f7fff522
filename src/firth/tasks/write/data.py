"""The files of a task that is done by writing, whatever their form."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.data.examples import TextExample
from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources
from firth.tasks.config import WritingConfig
from firth.tasks.data import Reading, read_task
from firth.tasks.write.forms import copies, labels_of, source_text, target_text


@dataclass(frozen=True)
class WritingData:
    """Examples to learn and to test, and the settings that were found in them."""

    config: WritingConfig
    train: list[Any]
    dev: list[Any]


def read_writing(
    config: WritingConfig, train: Path, dev: Path | None, reading: Reading, learning: bool = True
) -> WritingData:
    """The files of any form; what makes training senseless is an error. To test, the settings stay as they were."""
    if config.form == "copy":
        first, second = _copies(train, reading), _copies(dev, reading) if dev is not None else []
        return WritingData(config.replace(form="text"), first, second)
    if config.form == "text":
        first, second = _pairs(train, reading), _pairs(dev, reading) if dev is not None else []
        for path, found in ((train, first), (dev, second)):
            if path is not None and not found:
                raise FirthError(f"{path}: no pairs of texts in it; check the file")
        return WritingData(config, first, second)
    data = read_task(config.form, train, dev, reading)
    data.check.refuse(learning=learning)
    if not learning:
        return WritingData(config, data.train, data.dev)
    seen: dict[str, Any] = {"pairs": data.pairs, "scheme": data.check.scheme}
    if config.form == "tag":
        seen |= {"pairs": False, "characters": data.characters()}
    config = config.replace(**seen)
    return WritingData(config.replace(labels=labels_of(config, data.train)), data.train, data.dev)


def _pairs(path: Path, reading: Reading) -> list[TextExample]:
    """Sources and targets of a TSV, jsonl or TMX file, none of them empty."""
    chosen = PairsReadingConfig(source=reading.text, target=reading.label)
    return [
        TextExample(pair.source, None, pair.target, str(path))
        for pair in read_pairs(find_pair_sources([str(path)]), chosen)
        if pair.source.strip() and pair.target.strip()
    ]


def _copies(path: Path, reading: Reading) -> list[TextExample]:
    """Parts of the texts of a file, which is read as ``prepare`` reads it, to be repeated."""
    if reading.second is not None or reading.label is not None:
        raise FirthError("form=copy learns from plain text: leave out the columns of labels and second texts")
    documents = read_documents(find_sources([str(path)]), ReadingConfig(column=reading.text or "text"))
    found = copies(document.text for document in documents)
    if not found:
        raise FirthError(f"{path}: no clauses to copy in it; give a file of plain text")
    return [TextExample(source, None, target, str(path)) for source, target in found]


def describe_writing(config: WritingConfig, train: Path, dev: Path | None, reading: Reading) -> list[str]:
    """What is in the files, as lines for a terminal: how many examples, and the first as it will be read and written."""
    data = read_writing(config, train, dev, reading)
    first = data.train[0]
    return [
        f"examples   train {len(data.train):,}" + (f"   dev {len(data.dev):,}" if data.dev else ""),
        f"reads      {_short(source_text(data.config, first))}",
        f"writes     {_short(target_text(data.config, first))}",
    ]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:97]}..."
