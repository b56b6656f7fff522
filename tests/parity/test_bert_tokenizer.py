"""BERT's normalisation and pieces agree token for token with transformers' own tokenizer."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizerFast

from firth.tokenizers.pieces import Pieces

CASED = "The A É é ñ ##A ##é ##ñ \u0301 ##\u0301".split()
VOCAB = """[PAD] [UNK] [CLS] [SEP] [MASK] the dog ##s bark ##ed caf ##e naive ##ly a b c ##a ##b ##c 1 2 ##1 i ##ph ##one
6 x ##y 说 中 国 人 𠀀 ! . , ' - [ ] ( ) 。 ， “ ” … ß ##ß k ##k s i ##i 😀 ☃ ½ ∑ ^ $ ` ~ σ ##ς ##σ か な カ ##゙ ᄒ ##ᅡ ##ᆫ 한""".split()
HARD = (
    "the dogs barked café naïvely The CAFÉ aAbBc1 2 iPhone6s x-y's [MASK] [SEP] ÉñßİſﬁǅΣςK Ⅷ½∑ 说中国人来到北京。，“”…！？ 한글 かなガ "
    "ภาษา हिंदी עִברית \u0301\u0300\u0327\u3099\u200d\u200b\ufeff\ufffd\u00ad\x00\x01\x0b\x0c\x1c\x1d\x1e\x1f\x7f\x85\xa0\u1680\u2028\u2029\u3000"
    "\t\n\r😀👩‍👩‍👧🇨🇳☃\ufe0f𠀀𪜀\U0002f800豈①㈠\u302a\ue000\U000e0001$^`~+<=>|"
)
TEXT = st.one_of(
    st.text(st.sampled_from(HARD), max_size=60),
    st.lists(st.sampled_from([*HARD.split(" "), " ", ". "]), max_size=20).map("".join),
    st.text(st.characters(codec="utf-8"), max_size=40),
)


@cache
def both(lowercase: bool) -> tuple[Pieces, Any]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("".join(f"{token}\n" for token in dict.fromkeys(VOCAB + ([] if lowercase else CASED))))
        (Path(folder) / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(lowercase).lower()}}}')
        return Pieces.load(path), BertTokenizerFast.from_pretrained(folder)


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
@settings(max_examples=300, deadline=None)
@given(text=TEXT, pair=st.none() | TEXT.filter(bool))
def test_same_tokens(lowercase: bool, text: str, pair: str | None) -> None:
    ours, theirs = both(lowercase)
    mine = ours.encode(text, pair)
    other = theirs(text, pair)
    assert mine.ids.tolist() == other["input_ids"]
    assert mine.segments.tolist() == other["token_type_ids"]


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_the_vocabulary_is_not_all_unknown(lowercase: bool) -> None:
    ours, theirs = both(lowercase)
    tokens = ours.encode("the dogs barked café 说中国人。 a1b ☃ 😀", add_special=False).tokens
    assert tokens == theirs.tokenize("the dogs barked café 说中国人。 a1b ☃ 😀")
    assert tokens.count("[UNK]") <= 1
