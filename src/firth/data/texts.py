"""One text after the other from a file of any format."""

from collections.abc import Iterator

from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources, numbered_lines


def read_texts(path: str, column: str = "text") -> Iterator[str]:
    """Every line of a text file, also an empty one, so that results stay beside their lines; of a table or jsonl, the
    rows of the column that hold something."""
    for source in find_sources([path]):
        if source.format == "txt":
            yield from (line for _, line in numbered_lines(source, "utf-8"))
        else:
            yield from (document.text for document in read_documents([source], ReadingConfig(column=column)))
