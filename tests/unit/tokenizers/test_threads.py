"""A tokenizer that several threads use at once gives each the right answer."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from firth.tokenizers.pieces import Pieces


def test_eight_threads_get_the_right_pieces(corpus_folder: Path) -> None:
    pieces = Pieces.load(corpus_folder / "tokenizer")
    text = "The old [MASK] found a [SEP] clock near the river."
    wanted = {special: pieces.encode(text, read_special=special).ids.tolist() for special in (True, False)}
    assert wanted[True] != wanted[False]

    def ask(number: int) -> bool:
        special = number % 2 == 0
        found = pieces.encode(text, read_special=special).ids.tolist()
        plain = pieces.batch_ids([text])[0].tolist()
        return found == wanted[special] and plain == wanted[False][1:-1] and pieces.decode(found) != ""

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(2000)))


def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent(corpus_folder: Path) -> None:
    pieces = Pieces.load(corpus_folder / "tokenizer")
    with pieces.reading(special=True):
        child = os.fork()
        if child == 0:
            os._exit(0 if len(pieces.encode("The clock.").ids) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
