"""Every ability of every honest model of the attack, asked from eight threads at once and after a fork: the answers are
those of one thread alone.

    python thread_abilities.py SEEDS     prints what differs
"""

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import firth
from firth.api.data import tokens_of
from firth.evaluation.occurrences import map_context, map_words

TEXTS = ["The old doctor found a broken clock.", "An apple! [MASK] and [SEP].", "dog cat", "老师看见了一本书。", "a"]
RUNS = (
    *(
        "bert",
        "electra",
        "modernbert",
        "gpt",
        "t5",
        "marian",
        "seq2seq",
        "elmo",
        "recurrent",
        "xlnet",
        "task",
        "vectors",
    ),
    *("vit", "onnx", "static"),
)
Ask = Callable[[Any, str], object]
ABILITIES: dict[str, Ask] = {
    "encode": lambda model, text: model.encode([text, text[::-1]]),
    "layers": lambda model, text: model.layers(text).hidden,
    "fill": lambda model, text: [
        (one.token, one.probability) for mask in model.fill(f"The {model.mask_token} is {text}") for one in mask
    ],
    "generate": lambda model, text: [one.text for one in model.generate(text, max_tokens=8, seed=3, temperature=0.9)],
    "translate": lambda model, text: model.translate([text], beams=2),
    "attention": lambda model, text: model.attention(text).weights,
    "alignment": lambda model, text: model.align(text).alignment,
    "predict": lambda model, text: model.predict([text]),
    "nearest": lambda model, text: model.nearest("the", 3),
    "analogy": lambda model, text: model.analogy("the", "a", "old", 3),
    "follows": lambda model, text: model.follows(text, "The end."),
    "map": lambda model, text: map_words(model, ["the", "old", "doctor"]).places,
    "context": lambda model, text: (
        map_context(model, [(f"{text} apple", "apple"), ("an apple", "apple")], -1).similarity
    ),
    "tokens": lambda model, text: tokens_of(model, text)["tokens"],
    "score": lambda model, text: model.score_texts([text])[0].log_probs,
}


def answer(model: Any, ability: str, text: str) -> object:
    """What the model says, or its refusal; both have to be the same in every thread."""
    try:
        return ABILITIES[ability](model, text)
    except firth.FirthError as error:
        return str(error)


def _answer_to(model: Any, asked: tuple[str, str]) -> object:
    return answer(model, *asked)


def same(one: object, two: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.shape == two.shape and np.allclose(one, two, atol=1e-5)
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) < 1e-5
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    return one == two


def differences(seeds: Path, names: tuple[str, ...] = RUNS) -> tuple[int, list[str]]:
    """How many answers were compared, and which differ. Forked first: a process in which many threads have multiplied matrices
    cannot be forked safely, because MKL, which PyTorch uses, may wait without end in the child."""
    count, found, answers = 0, [], {}
    for name in names:
        model = firth.load(seeds / "runs" / name)
        texts = [str(seeds / "runs" / "vit" / "one.png")] if name == "vit" else TEXTS
        asked = [(ability, text) for ability in ABILITIES if ability in (*model.abilities, "score") for text in texts]
        wanted = [answer(model, *one) for one in asked]
        found += [f"{name} after a fork"] if not forked(model, asked, wanted) else []
        answers[name] = model, asked, wanted
    for name, (model, asked, wanted) in answers.items():
        fresh = firth.load(seeds / "runs" / name)  # asked for the first time by eight threads: nothing is made ready
        with ThreadPoolExecutor(8) as pool:
            for asker in (fresh, model):
                got = pool.map(partial(_answer_to, asker), asked * 2)
                pairs = zip(asked * 2, wanted * 2, got, strict=True)
                found += [f"{name} {one}" for one, right, told in pairs if not same(right, told)]
                count += 2 * len(asked)
    return count, found


def forked(model: Any, asked: list[tuple[str, str]], wanted: list[object]) -> bool:
    """Whether a forked process answers the same."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that hangs has not answered
        try:
            right = all(same(answer(model, *one), right) for one, right in zip(asked, wanted, strict=True))
        except BaseException:
            right = False
        os._exit(0 if right else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == "__main__":
    compared, other = differences(Path(sys.argv[1]))
    sys.stdout.write(f"{compared} answers\n" + "".join(f"{one}\n" for one in other))
    sys.exit(int(bool(other)))
