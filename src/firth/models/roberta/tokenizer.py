"""The tokenizers of XLM-R and CamemBERT by their SentencePiece models, as transformers makes them."""

from collections.abc import Mapping

from tokenizers import Tokenizer, normalizers

from firth.tokenizers.published import SentencePieceRules, Vocab, charsmap_of, enclosed, unigram_of
from firth.tokenizers.sentencepiece import SentencePiece

_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def _xlm_roberta(model: SentencePiece, config: Mapping[str, object]) -> Tokenizer:
    """fairseq's first four ids, the pieces one later, the mask last."""
    pieces: Vocab = [(token, score) for token, score, _ in model.pieces[3:]]
    vocab: Vocab = [(token, 0.0) for token in _TOKENS[:-1]] + pieces + [(_TOKENS[-1], 0.0)]
    special = {token: token == "<mask>" for token in _TOKENS}
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence(charsmap_of(model)))
    return enclosed(tokenizer, "<s>", "</s>", doubled=True)


def _camembert(model: SentencePiece, config: Mapping[str, object]) -> Tokenizer:
    unused = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)]
    pieces: Vocab = [(token, score) for token, score, _ in model.pieces[1:]]
    special = {"<pad>": False, "<unk>": False, "<s>": False, "</s>": False, "<mask>": True}
    vocab: Vocab = [*unused, *pieces, ("<mask>", 0.0)]
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence(charsmap_of(model)))
    return enclosed(tokenizer, "<s>", "</s>", doubled=True)


RULES: dict[str, SentencePieceRules] = {"xlm-roberta": _xlm_roberta, "camembert": _camembert}
