"""Sense-annotated text (word sense disambiguation) in its two usual formats.

All-words (Raganato et al. 2017): ``NAME.data.xml`` has ``<sentence>``s of ``<wf>`` and ``<instance>``;
``NAME.gold.key.txt`` in the same folder has the senses of each instance. Lexical sample (Senseval): each ``<lexelt>``
has ``<instance>``s with their ``<answer>`` and a ``<context>`` with the word in ``<head>``.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from firth.core.errors import FirthError
from firth.data.examples import SenseExample, SenseMark
from firth.data.sources import PACKINGS, find_sources, numbered_lines, open_source
from firth.tokenizers.words import split_words

_KEY_ENDINGS = (".gold.key.txt", ".key.txt", ".key")
_WORDNET_KINDS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
_UNASSIGNED = "U"  # Senseval's label for an occurrence that no sense fits


def read_senses(path: str) -> list[SenseExample]:
    """All examples with a sense, given in the file or in its key file."""
    source = find_sources([path])[0]
    keys = _read_keys(Path(path))
    with open_source(source) as handle:
        try:
            every = _examples(iterparse(handle, events=("start", "end")), source.name, keys)
            found = [example for example in every if example.marks]
        except ParseError as error:
            raise FirthError(
                f"{path}:{error.position[0]}: not well-formed XML ({error}); fix the file or choose another one"
            ) from None
    if not found:
        raise FirthError(
            f"{path}: no sense-annotated word: name an XML file with <instance>s, and put its key file "
            f"({key_names(Path(path))[0]}) in the same folder if the senses are not in the XML"
        )
    return found


def key_names(path: Path) -> list[str]:
    """Possible names of the key file of an XML file."""
    name = path.name
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    stem = name.removesuffix(".xml").removesuffix(".data")
    return [f"{stem}{ending}{packing}" for packing in ("", *PACKINGS) for ending in _KEY_ENDINGS]


def _read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """Senses by instance id. Lines are ``id sense...``, in lexical samples ``item id sense...``: so the second field
    is entered as an id, too. In the first format that field is a sense and is never looked up."""
    place = next((path.parent / name for name in key_names(path) if (path.parent / name).is_file()), None)
    keys: dict[str, tuple[str, ...]] = {}
    if place is None:
        return keys
    for number, line in numbered_lines(find_sources([str(place)])[0], "utf-8"):
        fields = line.split()
        if len(fields) == 1:
            raise FirthError(f"{place}:{number}: '{line.strip()[:40]}' has no sense; write: id sense")
        if fields:
            keys[fields[0]] = tuple(fields[1:])
            keys.setdefault(fields[1], tuple(fields[2:]))
    return keys


def _examples(
    events: Iterator[tuple[str, Element]], name: str, keys: dict[str, tuple[str, ...]]
) -> Iterator[SenseExample]:
    item = ""
    for event, element in events:
        if event == "start":
            item = element.get("item", "") if element.tag == "lexelt" else item
        elif element.tag == "sentence":
            yield _sentence(element, name, keys)
            element.clear()
        elif element.tag == "instance" and element.find("context") is not None:
            yield _context(element, item, name, keys)
            element.clear()


def _sentence(element: Element, name: str, keys: dict[str, tuple[str, ...]]) -> SenseExample:
    """An element with a space in it ("old age") is several words with one sense."""
    words: list[str] = []
    marks = []
    for part in element:
        start = len(words)
        words += "".join(part.itertext()).split()
        if part.tag != "instance" or start == len(words):
            continue
        number = part.get("id", "")
        senses = keys.get(number, ())
        if senses:
            item = f"{part.get('lemma', words[start]).lower()}#{part.get('pos', '')}"
            marks.append(SenseMark(number, item, start, len(words), senses))
    return SenseExample(words, marks, f"{name}: {element.get('id', 'a sentence')}")


def _context(element: Element, item: str, name: str, keys: dict[str, tuple[str, ...]]) -> SenseExample:
    number = element.get("id", "")
    inside = tuple(answer.get("senseid", "") for answer in element.findall("answer"))
    senses = tuple(sense for sense in inside or keys.get(number, ()) if sense and sense != _UNASSIGNED)
    words: list[str] = []
    heads: list[tuple[int, int]] = []
    context = element.find("context")
    assert context is not None
    _collect(context, words, heads)
    marks = [SenseMark(number, item, *heads[0], senses)] if senses and heads else []
    return SenseExample(words, marks, f"{name}: {number or 'an instance'}")


def _collect(element: Element, words: list[str], heads: list[tuple[int, int]]) -> None:
    """Appends words in order: ``<wf>`` is split at spaces only, other text by Firth's word splitter."""
    start = len(words)
    text = element.text or ""
    words += text.split() if element.tag == "wf" else _cut(text)
    for part in element:
        _collect(part, words, heads)
        words += _cut(part.tail or "")
    if element.tag == "head" and len(words) > start:
        heads.append((start, len(words)))


def _cut(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def read_first_senses(path: str) -> dict[str, str]:
    """The first sense of each item, from WordNet's ``index.sense`` or from lines ``lemma#POS sense``."""
    found: dict[str, str] = {}
    for number, line in numbered_lines(find_sources([path])[0], "utf-8"):
        fields = line.split()
        if not fields:
            continue
        if len(fields) == 4 and "%" in fields[0]:  # sense_key synset_offset sense_number tag_cnt
            lemma, _, rest = fields[0].partition("%")
            if fields[2] == "1" and rest[:1] in _WORDNET_KINDS:
                found[f"{lemma}#{_WORDNET_KINDS[rest[0]]}"] = fields[0]
        elif len(fields) == 2:
            found[fields[0]] = fields[1]
        else:
            raise FirthError(
                f"{path}:{number}: neither a line of WordNet's index.sense nor 'lemma#POS sense'; fix this line"
            )
    return found
