"""N-grams of a text: words and pairs of words, and strings of characters.

Text of spaced scripts is cut into words and marks; its characters are n-grams of " word ", as scikit-learn's ``char_wb``
takes them. Chinese is segmented into words; the characters of a text with Chinese in it are n-grams of the whole text, marks
and spaces included (scikit-learn's ``char``), because where one word ends is a guess.
"""

from collections.abc import Sequence
from itertools import pairwise

from firth.tokenizers.words import has_han, split_words

SPACED = (2, 5)  # characters in an n-gram, from and to
CHINESE = (1, 2)


def cut_text(text: str) -> tuple[list[str], list[str]]:
    """The words in lower case, and the chunks inside of which n-grams of characters are taken."""
    text = text.lower()
    words = [text[start:end] for start, end in split_words(text)]
    if text.isascii() or not has_han(text):
        return words, words
    return words, [" ".join(text.split())]


def word_ngrams(words: Sequence[str]) -> list[str]:
    """Every word, and every two that stand together unless both are Chinese: characters say those better."""
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    return [*words, *(pair for pair in pairs if pair.isascii() or not _both_han(pair))]


def _both_han(pair: str) -> bool:
    return all(map(has_han, pair.split(" ", 1)))


def chunk_ngrams(chunk: str) -> list[str]:
    """The n-grams of characters of a word with a space on either side, or of a text with Chinese in it. A word that is
    shorter than an n-gram counts once, whole."""
    if has_han(chunk):
        shortest, longest, text = *CHINESE, chunk
    else:
        shortest, longest, text = *SPACED, f" {chunk} "
    found = []
    for size in range(shortest, longest + 1):
        if len(text) <= size:
            found.append(text)
            break
        found += [text[start : start + size] for start in range(len(text) - size + 1)]
    return found


def character_ngrams(text: str) -> list[str]:
    """Those of all chunks of a text."""
    return [ngram for chunk in cut_text(text)[1] for ngram in chunk_ngrams(chunk)]
