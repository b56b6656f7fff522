"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and CamemBERT (Martin et al. 2020): a BERT whose positions count
on from the id of the padding, with one segment, and a classifier of two layers over its first token."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules, Vocab
    from firth.tokenizers.sentencepiece import SentencePiece


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them."""
    from firth.models.shared.published import DENSE_CLASSIFIER, LM_HEAD, MASKED_CLASSES, EncoderFormat, bert_heads

    heads = bert_heads("roberta")

    return EncoderFormat(
        classes={"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"},
        title="RoBERTa",
        heads={"token_head": LM_HEAD} | {part: heads[part] for part in ("pooler", "classifier", "spans")},
        text_heads=DENSE_CLASSIFIER,
        architectures=MASKED_CLASSES,
        head_activation="gelu",
        output="lm_head.decoder.weight",
        shape={"positions": "learned"},
        defaults={"pad_token_id": 1, "max_position_embeddings": 512},
        offset=True,
    )


_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def _xlm_roberta(model: "SentencePiece", config: Mapping[str, object]) -> "Tokenizer":
    """fairseq's first four ids, the pieces one later, the mask last."""
    from tokenizers import normalizers

    from firth.tokenizers.published import charsmap_of, enclosed, unigram_of

    pieces: Vocab = [(token, score) for token, score, _ in model.pieces[3:]]
    vocab: Vocab = [(token, 0.0) for token in _TOKENS[:-1]] + pieces + [(_TOKENS[-1], 0.0)]
    special = {token: token == "<mask>" for token in _TOKENS}
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence(charsmap_of(model)))
    return enclosed(tokenizer, "<s>", "</s>", doubled=True)


def _camembert(model: "SentencePiece", config: Mapping[str, object]) -> "Tokenizer":
    from tokenizers import normalizers

    from firth.tokenizers.published import charsmap_of, enclosed, unigram_of

    unused = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)]
    pieces: Vocab = [(token, score) for token, score, _ in model.pieces[1:]]
    special = {"<pad>": False, "<unk>": False, "<s>": False, "</s>": False, "<mask>": True}
    vocab: Vocab = [*unused, *pieces, ("<mask>", 0.0)]
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence(charsmap_of(model)))
    return enclosed(tokenizer, "<s>", "</s>", doubled=True)


def _sentencepiece() -> "Mapping[str, SentencePieceRules]":
    return {"xlm-roberta": _xlm_roberta, "camembert": _camembert}


SPEC = published_encoder("roberta", _format, ("roberta", "xlm-roberta", "camembert"), sentencepiece=_sentencepiece)
