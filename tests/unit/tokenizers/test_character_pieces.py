"""Characters as tokens: every one is kept, white space too, and comes back."""

from pathlib import Path

import firth
from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.vocabulary import train_pieces

PLAY = "First Citizen:\nBefore we proceed,  hear me.\n\nAll:\nSpeak, speak! 说\n"


def test_there_and_back(tmp_path: Path) -> None:
    pieces = train_pieces(lambda: [PLAY], TokensConfig(kind="characters", lowercase=False))
    encoding = pieces.encode(PLAY, add_special=False)
    assert encoding.tokens == list(PLAY)
    assert encoding.offsets.tolist() == [[place, place + 1] for place in range(len(PLAY))]
    assert pieces.decode(encoding.ids.tolist()) == PLAY
    assert pieces.kind == "characters"
    pieces.save(tmp_path)
    again = Pieces.load(tmp_path)
    assert again.kind == "characters"
    assert again.encode(PLAY).ids.tolist() == encoding.ids.tolist()
    assert again.token(int(again.encode("§").ids[0])) == "<unk>"
    assert again.eos_id is not None


def test_the_frequent_are_kept_and_case_is_folded() -> None:
    text = "".join(chr(0x4E00 + code) for code in range(400)) + "AaAb" * 9
    pieces = train_pieces(lambda: [text], TokensConfig(kind="characters", vocab_size=300))
    assert pieces.vocab_size == 300
    assert pieces.encode("AB", add_special=False).tokens == ["a", "b"]


def test_a_corpus_of_characters(tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(PLAY * 30, encoding="utf-8")
    info = firth.prepare(
        tmp_path / "play.txt",
        tmp_path / "corpus",
        tokens="characters",
        lowercase=False,
        layout="file",
        heldout=0,
        workers=1,
    )
    corpus = Corpus.open(tmp_path / "corpus")
    assert corpus.pieces.decode(corpus.train.tokens.tolist()) == PLAY * 30
    assert info.vocab_size == len(set(PLAY)) + 4
    assert info.train.unknown == 0
