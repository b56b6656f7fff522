"""Character ids by hand, as the published program writes them."""

import numpy as np

from firth.tokenizers.words import PADDING, border_ids, character_ids, used_len


def test_a_word_by_hand() -> None:
    ids = character_ids(["cat"])[0]
    assert ids[:5].tolist() == [259, 100, 98, 117, 260]  # 258 c a t 259, all one more
    assert ids[5:].tolist() == [261] * 45
    assert PADDING + 2 == 262  # ids are shifted by one, 0 is padding of the batch


def test_chinese_is_bytes() -> None:
    ids = character_ids(["猫"])[0]
    assert ids[:5].tolist() == [259, *(byte + 1 for byte in "猫".encode()), 260]


def test_borders_of_a_sentence() -> None:
    begin, end = border_ids()
    assert begin[:4].tolist() == [259, 257, 260, 261]
    assert end[:4].tolist() == [259, 258, 260, 261]
    assert len(begin) == 50


def test_long_words_lose_their_end() -> None:
    ids = character_ids(["x" * 60, "x" * 48, "x" * 47])
    np.testing.assert_array_equal(ids[0], ids[1])
    assert ids[0].tolist() == [259, *[121] * 48, 260]
    assert ids[2].tolist() == [259, *[121] * 47, 260, 261]


def test_surrogates_and_empty_words() -> None:
    assert character_ids(["\ud800a"])[0][:3].tolist() == [259, 98, 260]
    assert character_ids([""])[0][:3].tolist() == [259, 260, 261]
    assert character_ids([]).shape == (0, 50)


def test_used_len() -> None:
    assert used_len(character_ids(["a", "four", "to"])) == 6
    assert used_len(character_ids(["x" * 60])) == 50
    assert used_len(character_ids([])) == 0
