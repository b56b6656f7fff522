"""Tokens that were added to a published tokenizer which has no ``tokenizer.json``: ``added_tokens_decoder`` in its
``tokenizer_config.json``, or the older ``added_tokens.json``. They are added as transformers does, or refused."""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, read_json

_FILE = "added_tokens.json"
_MOST, _MOST_CHARS = 100_000, 1000
_ROLES = [f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]


def add_listed(tokenizer: Tokenizer, folder: Path, config: Mapping[str, object]) -> None:
    """Adds what is listed beside a vocabulary, each token with the id that is said; those that are there stay as they are.
    ``config`` is that of the tokenizer."""
    path = folder / ("tokenizer_config.json" if "added_tokens_decoder" in config else _FILE)
    listed = config.get("added_tokens_decoder")
    if "added_tokens_decoder" not in config:
        if not path.is_file():
            return
        listed = _older(read_json(path, dict), folder, config)
    if listed is None:
        return
    if not isinstance(listed, dict) or len(listed) > _MOST or not all(map(str.isdecimal, listed)):
        raise FirthError(f"{path}: not a list of added tokens with their ids; copy it again")
    there = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for number in sorted(map(int, listed)):
        with foreign_errors(path, "a list of added tokens that can be read"):
            token = _token(listed.get(str(number)), path)
            if token.content not in there:
                (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
            found = tokenizer.token_to_id(token.content)
        if found != number:
            raise FirthError(
                f"{path}: the added token {token.content[:40]!r} has id {number} here, but {found} by the vocabulary; copy all tokenizer files of one model again"
            )


def _older(listed: Mapping[str, object], folder: Path, config: Mapping[str, object]) -> dict[str, object]:
    """``added_tokens.json`` in the newer spelling: tokens by id; special are those that a role or another list names."""
    named = dict(config)
    if (folder / "special_tokens_map.json").is_file():
        named |= read_json(folder / "special_tokens_map.json", dict)
    more = [named.get(name) for name in ("additional_special_tokens", "extra_special_tokens")]
    others = [one for several in more if isinstance(several, list) for one in several]
    known = [named.get(role) for role in _ROLES] + others
    special = {one.get("content") if isinstance(one, dict) else one for one in known if isinstance(one, str | dict)}
    found: dict[str, object] = {}
    for content, number in listed.items():
        row = {"content": content, "normalized": content not in special, "special": content in special}
        if str(number) in found or type(number) is not int:
            raise FirthError(f"{folder / _FILE}: the id of {content[:40]!r} is no number of its own; copy it again")
        found[str(number)] = row
    return found


def _token(row: object, path: Path) -> AddedToken:
    content = row.get("content") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(content, str) or not 0 < len(content) <= _MOST_CHARS:
        raise FirthError(f"{path}: an added token without its letters, or of more than {_MOST_CHARS:,}; copy it again")
    flags = {name: row.get(name, False) for name in ("lstrip", "rstrip", "single_word", "special")}
    flags["normalized"] = row.get("normalized", not flags["special"])
    return AddedToken(content, **{name: bool(value) for name, value in flags.items()})
