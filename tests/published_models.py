"""Tiny models of transformers with random weights and their tokenizers, as their authors publish them: a directory each."""

import json
from collections.abc import Callable
from pathlib import Path

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PretrainedConfig, PreTrainedModel

import language_text

MIXED = [
    "The old doctor, aged 3.5, didn't find a <b>clock</b>.",
    "Über den Dächern hört man schöne Lieder — ﬁn de siècle!",
    "老师看见了一本书。今天天气很好！",
    "Мой ёжик живёт в йогурте. ガラスの靴を履いて",
    "मैं घर जा रहा हूँ ।  Tôi không   biết tiếng Việt.",
    "كَتَبَ الطَّالِبُ رِسَالَةً ؟ ไทย 🙂 Ｗｉｄｅ",
    "",
]
PAIR = ("Where is the clock?", "Die Uhr ist dort drüben.")
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}
_NO_IDS = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
SETTINGS: dict[str, tuple[str, dict[str, object]]] = {  # model_type: class, settings
    "roberta": ("Roberta", _SIZES | {"type_vocab_size": 1, "pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", _SIZES | {"type_vocab_size": 1, "pad_token_id": 1}),
    "camembert": ("Camembert", _SIZES | {"type_vocab_size": 1, "pad_token_id": 1}),
    "distilbert": (
        "DistilBert",
        {
            "dim": 32,
            "n_layers": 4,
            "n_heads": 4,
            "hidden_dim": 48,
            "max_position_embeddings": 66,
            "initializer_range": 0.3,
        },
    ),
    "albert": ("Albert", _SIZES | {"embedding_size": 8}),
    "mpnet": ("MPNet", _SIZES | {"pad_token_id": 1}),
    "electra": ("Electra", _SIZES | {"embedding_size": 8}),
    "modernbert": ("ModernBert", _SIZES | _NO_IDS | {"local_attention": 8, "pad_token_id": 0}),
    "deberta-v2": (
        "DebertaV2",
        _SIZES
        | {
            "relative_attention": True,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "type_vocab_size": 0,
            "position_biased_input": False,
        },
    ),
}


def lines() -> list[str]:
    """Text of many scripts to train tokenizers on."""
    found = [sentence for sentences in language_text.TEXTS.values() for sentence in sentences]
    return [*found, *MIXED[:-1], *PAIR] * 3


def build_model(model_type: str, ending: str, vocab_size: int, **more: object) -> PreTrainedModel:
    """A model of transformers with random weights, none of them small."""
    name, settings = SETTINGS[model_type]
    torch.manual_seed(0)
    config: PretrainedConfig = getattr(transformers, f"{name}Config")(vocab_size=vocab_size, **settings, **more)
    config._attn_implementation = "eager"
    model: PreTrainedModel = getattr(transformers, f"{name}{ending}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def write_model(folder: Path, model_type: str, ending: str = "ForMaskedLM", **more: object) -> PreTrainedModel:
    """The directory of such a model, whole; of its tokenizer the older files alone where there are some."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = write_tokenizer(folder, model_type)
    model = build_model(model_type, ending, vocab_size + 3, **more)  # published tables often have spare rows
    model.save_pretrained(folder)
    return model


def write_tokenizer(folder: Path, model_type: str) -> int:
    """The files of its tokenizer; how many tokens it knows."""
    count = _WRITERS[model_type](folder)
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return count


def _words(first: str, last: str, pad: str, mask: str) -> Callable[[Path], int]:
    """A vocab.txt of BERT's kind."""

    def write(folder: Path) -> int:
        special = [first, pad, last, "[UNK]", mask]
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(lines(), trainer)
        vocab = tokenizer.get_vocab()
        text = "".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__))
        (folder / "vocab.txt").write_text(text, encoding="utf-8")
        return len(vocab)

    return write


def _sentencepiece(name: str, added: int, **options: object) -> Callable[[Path], int]:
    """A SentencePiece model; ``added``: how many tokens its class has besides."""

    def write(folder: Path) -> int:
        with (folder / name).open("wb") as writer:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines()),
                model_writer=writer,
                vocab_size=420,
                hard_vocab_limit=False,
                character_coverage=0.98,
                minloglevel=2,
                **options,
            )
        return sentencepiece.SentencePieceProcessor(str(folder / name)).vocab_size() + added

    return write


def _byte_level(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(lines(), trainer)
    return tokenizer


def _roberta(folder: Path) -> int:
    tokenizer = _byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.model.save(str(folder))
    return int(tokenizer.get_vocab_size())


def _modernbert(folder: Path) -> int:
    tokenizer = _byte_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    named |= {"unk_token": "[UNK]", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return int(tokenizer.get_vocab_size())


_WRITERS: dict[str, Callable[[Path], int]] = {
    "roberta": _roberta,
    "xlm-roberta": _sentencepiece("sentencepiece.bpe.model", 2),
    "camembert": _sentencepiece("sentencepiece.bpe.model", 5),
    "distilbert": _words("[CLS]", "[SEP]", "[PAD]", "[MASK]"),
    "albert": _sentencepiece(
        "spiece.model",
        0,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece="<pad>",
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    ),
    "mpnet": _words("<s>", "</s>", "<pad>", "<mask>"),
    "electra": _words("[CLS]", "[SEP]", "[PAD]", "[MASK]"),
    "modernbert": _modernbert,
    "deberta-v2": _sentencepiece(
        "spm.model",
        1,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
    ),
}
