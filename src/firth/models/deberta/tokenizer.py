"""The tokenizer of DeBERTa by its SentencePiece model, as transformers makes it."""

from collections.abc import Mapping

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from firth.tokenizers.published import SPACE, SentencePieceRules, Vocab, enclosed, unigram_of
from firth.tokenizers.sentencepiece import SentencePiece


def _deberta(model: SentencePiece, config: Mapping[str, object]) -> Tokenizer:
    steps: list[normalizers.Normalizer] = [normalizers.Lowercase()] if config.get("do_lower_case", False) else []
    steps += [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC()]
    steps.append(normalizers.Strip(left=False, right=True))
    vocab: Vocab = [(token, score) for token, score, _ in model.pieces]
    special = dict.fromkeys(("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"), False)
    tokenizer = unigram_of(vocab, "[UNK]", special, normalizers.Sequence(steps))
    marked = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation(), marked] if config.get("split_by_punct", False) else [marked]
    )
    return enclosed(tokenizer, "[CLS]", "[SEP]", doubled=False)


RULES: dict[str, SentencePieceRules] = {"deberta-v2": _deberta}
