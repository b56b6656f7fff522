"""The tokenizer of ALBERT by its SentencePiece model, as transformers makes it."""

from collections.abc import Mapping

from tokenizers import Tokenizer, normalizers

from firth.tokenizers.published import SentencePieceRules, Vocab, charsmap_of, enclosed, unigram_of
from firth.tokenizers.sentencepiece import SentencePiece


def _albert(model: SentencePiece, config: Mapping[str, object]) -> Tokenizer:
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    steps += [] if config.get("keep_accents", False) else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if config.get("do_lower_case", True) else []
    special = dict.fromkeys(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), False)
    vocab: Vocab = [(token, score) for token, score, _ in model.pieces]
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence([*steps, *charsmap_of(model)]))
    return enclosed(tokenizer, "[CLS]", "[SEP]", doubled=False)


RULES: dict[str, SentencePieceRules] = {"albert": _albert}
