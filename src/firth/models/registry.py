"""Recipes by name."""

from collections.abc import Callable

from firth.core.configs import RunConfig
from firth.core.errors import FirthError, nearest
from firth.models.bert import recipes as bert
from firth.models.electra import recipes as electra
from firth.models.elmo import recipes as elmo
from firth.models.ernie import recipes as ernie
from firth.models.fasttext import recipes as fasttext
from firth.models.glove import recipes as glove
from firth.models.gpt import recipes as gpt
from firth.models.recurrent import recipes as recurrent
from firth.models.seq2seq import recipes as seq2seq
from firth.models.t5 import recipes as t5
from firth.models.transformer import recipes as transformer
from firth.models.unilm import recipes as unilm
from firth.models.word2vec import recipes as word2vec
from firth.models.xlnet import recipes as xlnet
from firth.vectors.configs import AnyVectorsConfig

RECIPES: dict[str, Callable[[], RunConfig]] = {
    "bert-tiny": bert.bert_tiny,
    "bert-mini": bert.bert_mini,
    "bert-small": bert.bert_small,
    "bert-base": bert.bert_base,
    "bert-large": bert.bert_large,
    "bert-tiny-modern": bert.bert_tiny_modern,
    "bert-mini-modern": bert.bert_mini_modern,
    "bert-continue": bert.bert_continue,
    "elmo-tiny": elmo.elmo_tiny,
    "elmo-small": elmo.elmo_small,
    "elmo-medium": elmo.elmo_medium,
    "elmo-original": elmo.elmo_original,
    "rnn-lm": recurrent.rnn_lm,
    "lstm-lm": recurrent.lstm_lm,
    "gru-lm": recurrent.gru_lm,
    "lstm-lm-nce": recurrent.lstm_lm_nce,
    "lstm-lm-regularised": recurrent.lstm_lm_regularised,
    "lstm-lm-awd": recurrent.lstm_lm_awd,
    "electra-tiny": electra.electra_tiny,
    "electra-mini": electra.electra_mini,
    "electra-small": electra.electra_small,
    "ernie-tiny": ernie.ernie_tiny,
    "ernie-mini": ernie.ernie_mini,
    "unilm-tiny": unilm.unilm_tiny,
    "unilm-mini": unilm.unilm_mini,
    "unilm-seq2seq": unilm.unilm_seq2seq,
    "xlnet-tiny": xlnet.xlnet_tiny,
    "xlnet-mini": xlnet.xlnet_mini,
    "t5-tiny": t5.t5_tiny,
    "t5-mini": t5.t5_mini,
    "t5-small": t5.t5_small,
    "t5-write": t5.t5_write,
    "gpt-tiny": gpt.gpt_tiny,
    "gpt-mini": gpt.gpt_mini,
    "gpt-small": gpt.gpt_small,
    "gpt-char": gpt.gpt_char,
    "seq2seq": seq2seq.seq2seq,
    "seq2seq-attention": seq2seq.seq2seq_attention,
    "transformer-tiny": transformer.transformer_tiny,
    "transformer-base": transformer.transformer_base,
}
VECTOR_RECIPES: dict[str, Callable[[], AnyVectorsConfig]] = {
    "word2vec": word2vec.word2vec,
    "word2vec-skipgram": word2vec.word2vec_skipgram,
    "fasttext": fasttext.fasttext,
    "glove": glove.glove,
}


def find_recipe(name: str) -> RunConfig:
    """A recipe that the training loop runs."""
    if name not in RECIPES:
        raise FirthError(f"unknown recipe '{name}': {nearest(name, [*RECIPES, *VECTOR_RECIPES])}")
    return RECIPES[name]()
