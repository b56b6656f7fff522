"""Tokenizers of published directories that have no ``tokenizer.json``: what transformers makes of their older files.

Which tokens stand around a text, how ids are shifted and what is normalised is not in those files but in the class that
``model_type`` (config.json) names; here its ``ModelSpec`` says it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, read_json
from firth.core.registry import spec_of_model_type
from firth.tokenizers.sentencepiece import SentencePiece

SPACE = "\u2581"
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
Vocab = list[tuple[str, float]]
SentencePieceRules = Callable[[SentencePiece, Mapping[str, object]], Tokenizer]
"""From a SentencePiece model and the config of the tokenizer."""


def enclosed(tokenizer: Tokenizer, first: str, last: str, doubled: bool) -> Tokenizer:
    """``first`` text ``last``, and between two texts one ``last`` or, ``doubled``, two; then all is of one segment."""
    between, second = (f"{last} {last}", 0) if doubled else (f"{last}:0", 1)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {between} $B:{second} {last}:{second}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return tokenizer


def unigram_of(vocab: Vocab, unk: str, special: Mapping[str, bool], normalizer: normalizers.Normalizer) -> Tokenizer:
    """A Unigram over words with a mark before each. ``special`` tokens, and whether they take the space before them."""
    place = next(number for number, (token, _) in enumerate(vocab) if token == unk)
    tokenizer = Tokenizer(models.Unigram(vocab, place, byte_fallback=False))
    tokenizer.normalizer = normalizer
    marked = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marked])
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False, lstrip=takes) for token, takes in special.items()]
    )
    return tokenizer


def charsmap_of(model: SentencePiece) -> list[normalizers.Normalizer]:
    return [normalizers.Precompiled(model.charsmap)] if model.charsmap else []


def sentencepiece_of(path: Path, config: Mapping[str, object]) -> Tokenizer | None:
    """The tokenizer of a directory's SentencePiece model by the conventions of its ``model_type``; None where none are
    known, so that its ids are those of the file. ``config`` is that of the tokenizer."""
    kind = _model_type(path.parent)
    spec = spec_of_model_type(kind)
    build = None if spec is None or spec.sentencepiece is None else spec.sentencepiece().get(kind)
    if build is None:
        return None
    try:
        return build(SentencePiece.open(path), config)
    except StopIteration:
        raise FirthError(f"{path}: no token for what is unknown; is it the file of another model?") from None


def byte_level_of(folder: Path, config: Mapping[str, object]) -> Tokenizer:
    """``vocab.json`` and ``merges.txt`` of GPT-2 and RoBERTa: pieces of UTF-8 bytes."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    if not merges.is_file():
        raise FirthError(f"{merges}: missing next to vocab.json; copy it from where the model comes from")
    prefix = bool(config.get("add_prefix_space", False))
    try:
        tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    except Exception as error:
        raise FirthError(f"{vocab}: not a tokenizer that can be read ({str(error)[:120]}); check the file") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    ids = tokenizer.get_vocab()
    special = _ROBERTA if "<s>" in ids and "</s>" in ids else ("<|endoftext|>",)
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False, lstrip=token == "<mask>")
            for token in special
            if token in ids
        ]
    )
    if special == _ROBERTA:
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), True, prefix
        )
    return tokenizer


def enclose_words(tokenizer: Tokenizer) -> None:
    """MPNet's: the pieces of BERT between ``<s>`` and ``</s>``."""
    known = [token for token in ("<s>", "<pad>", "</s>", "[UNK]", "<mask>") if tokenizer.token_to_id(token) is not None]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False, lstrip=token == "<mask>") for token in known]
    )
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), True, False)


def _model_type(folder: Path) -> str:
    data = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    return str(data.get("model_type")) if isinstance(data, dict) else ""


# -- tokens that were added to a published tokenizer which has no ``tokenizer.json``: ``added_tokens_decoder`` in its
# ``tokenizer_config.json``, or the older ``added_tokens.json``. They are added as transformers does, or refused.


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
