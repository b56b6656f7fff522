"""Small tokenizers made from words at hand, shared by the tests of this room."""

from hypothesis import strategies as st

from firth.tokenizers.pieces import BYTE_TOKENS, SPECIALS, Pieces, bert_tokenizer

WORDS = "the dog ##s bark ##ed caf ##e naive ##ly a b c ##a ##b ##c ##1 1 2 i ##ph ##one 6 ##s x ##y 说 中 国 人 ! . , ' - [ ] ( ) 。 ， “ ” … ß".split()


def build_vocab(lowercase: bool, strip_accents: bool | None = None) -> list[str]:
    """Enough to meet known words, inner pieces and [UNK]; accents and capitals only where they are kept."""
    more = (
        []
        if (lowercase if strip_accents is None else strip_accents)
        else ["The", "Caf", "É", "é", "##é", "A", "##A", "\u0301", "##\u0301", "ñ"]
    )
    return list(dict.fromkeys(SPECIALS["wordpiece"] + WORDS + more))


def build_pieces(
    lowercase: bool = True, byte_fallback: bool = False, strip_accents: bool | None = None, keep_joiners: bool = False
) -> Pieces:
    """``strip_accents`` as published BERTs have it (``None``: where case is folded), or told."""
    tokens = build_vocab(lowercase, strip_accents) + (BYTE_TOKENS if byte_fallback else [])
    tokens += ["\u200d", "##\u200d"] if keep_joiners else []
    vocab = {token: number for number, token in enumerate(tokens)}
    return Pieces(bert_tokenizer(vocab, lowercase, strip_accents, keep_joiners=keep_joiners))


# What has gone wrong in other tokenizers: spaces that are not spaces, marks on their own, letters
# that grow or shrink when folded, ideographs beyond the first plane, emoji of several characters.
HARD = (
    "the dogs barked café naïvely aAbBc1 2 iPhone6s x-y's [MASK] [UNK] ##s ÉñßİſﬁǅΣς Ⅷ½ 说中国人来到北京。，“”…！？ "
    "한글 かなガ ภาษา हिंदी עִברית \u0301\u0300\u0327\u3099\u200d\u200b\ufeff\ufffd\u00ad\x00\x01\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"
    "\u1680\u2028\u2029\u3000\t\n\r😀👩‍👩‍👧🇨🇳☃\ufe0f𠀀𪜀\U0002f800豈\u2460\u3220\u302a\ue000\U000e0001$^`~+<=>|"
)
hard_text = st.one_of(
    st.text(st.sampled_from(HARD), max_size=60),
    st.lists(st.sampled_from([*HARD.split(" "), "The", " ", ". ", "\n\n", "。"]), max_size=25).map("".join),
    st.text(max_size=40),
)
