"""Two probes of word vectors in context: word senses by the nearest sense vector (Peters et al. 2018, section 5.3), and tags
by a linear classifier with a control task (Hewitt & Liang 2019).

Senses: the vectors of all training occurrences of a sense are averaged; a word in a new sentence gets the sense of its item
(lemma and part of speech) whose vector is nearest by cosine; an item that was never seen in training gets its first
sense, if a list of first senses was given, else no answer. Each layer by itself.

L layers, S senses, D hidden size.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import generator, uniform
from firth.data.labelled import SenseExample, SenseMark
from firth.tokenizers.words import split_words


@dataclass(frozen=True)
class SensedWord:
    """A word in context with its vectors [L, D]; any of ``senses`` is correct."""

    item: str
    senses: tuple[str, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class SenseScores:
    """F1 of each layer (precision over the answered words, recall over all), and of the first-sense baseline.

    ``choice``: the accuracy on words with at least two senses in training.
    """

    f1: list[float]
    first_f1: float
    choice: list[float] | None
    first_choice: float | None
    num_train: int
    num_test: int
    num_choice: int
    num_unseen: int  # test words whose item is not in training
    num_unanswered: int


class NearestSense:
    """The mean vector of each sense in training."""

    def __init__(self, train: Sequence[SensedWord], first: Mapping[str, str] | None = None) -> None:
        """``first`` are first senses by item; otherwise the most frequent sense in training is used."""
        sums: dict[str, dict[str, NDArray[np.float64]]] = {}
        counts: dict[str, dict[str, int]] = {}
        for word in train:
            for sense in word.senses:
                of_item = sums.setdefault(word.item, {})
                of_item[sense] = of_item.get(sense, np.zeros(1)) + word.vectors.astype(np.float64)
                number = counts.setdefault(word.item, {})
                number[sense] = number.get(sense, 0) + 1
        # The most frequent sense stands first, so that it wins ties (a word without a vector).
        self.senses = {item: sorted(found, key=lambda sense: -found[sense]) for item, found in counts.items()}
        self._units = {
            item: _units(np.stack([sums[item][sense] for sense in senses])) for item, senses in self.senses.items()
        }
        self.first = {item: senses[0] for item, senses in self.senses.items()} | dict(first or {})

    def predict(self, word: SensedWord) -> list[str | None]:
        """The predicted sense for each layer; None if there is none."""
        if word.item not in self.senses:
            return [self.first.get(word.item)] * len(word.vectors)
        units_LD = _units(word.vectors.astype(np.float64))
        nearest_L = np.einsum("sld,ld->ls", self._units[word.item], units_LD).argmax(1)
        return [self.senses[word.item][place] for place in nearest_L.tolist()]


def _units(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised to length 1; sums need not be divided first, since a sum and a mean have the same direction."""
    found: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return found


def score_senses(
    train: Sequence[SensedWord], test: Sequence[SensedWord], first: Mapping[str, str] | None = None
) -> SenseScores:
    model = NearestSense(train, first)
    answers = [model.predict(word) for word in test]
    firsts = [model.first.get(word.item) for word in test]
    choices = [len(model.senses.get(word.item, ())) > 1 for word in test]
    unseen = sum(word.item not in model.senses for word in test)
    return _scores(test, answers, firsts, choices, len(train), unseen)


def leave_one_out(words: Sequence[SensedWord]) -> SenseScores:
    """Each word is predicted from all others: for samples that are too small to be split."""
    answers, choices, unseen = [], [], 0
    first = NearestSense(words).first  # of all: without the word itself the other sense would always be more frequent
    firsts = [first.get(word.item) for word in words]
    for place, word in enumerate(words):
        model = NearestSense([*words[:place], *words[place + 1 :]])
        answers.append(model.predict(word))
        choices.append(len(model.senses.get(word.item, ())) > 1)
        unseen += word.item not in model.senses
    return _scores(words, answers, firsts, choices, len(words), unseen)


def _scores(
    test: Sequence[SensedWord],
    answers: Sequence[Sequence[str | None]],
    firsts: Sequence[str | None],
    choices: Sequence[bool],
    num_train: int,
    num_unseen: int,
) -> SenseScores:
    num_layers = len(test[0].vectors)
    right_NL = np.asarray([[found in word.senses for found in row] for word, row in zip(test, answers, strict=True)])
    first_N = np.asarray([found in word.senses for word, found in zip(test, firsts, strict=True)])
    chosen_N = np.asarray(choices, np.bool_)
    answered = sum(found is not None for found in firsts)
    any_choice = bool(chosen_N.any())
    return SenseScores(
        f1=[f1(int(right_NL[:, layer].sum()), answered, len(test)) for layer in range(num_layers)],
        first_f1=f1(int(first_N.sum()), answered, len(test)),
        choice=right_NL[chosen_N].mean(0).tolist() if any_choice else None,
        first_choice=float(first_N[chosen_N].mean()) if any_choice else None,
        num_train=num_train,
        num_test=len(test),
        num_choice=int(chosen_N.sum()),
        num_unseen=num_unseen,
        num_unanswered=len(test) - answered,
    )


def f1(right: int, answered: int, asked: int) -> float:
    """F1 of precision right/answered and recall right/asked: 2·right / (answered + asked)."""
    return 2 * right / (answered + asked) if answered + asked else 0.0


_ENGLISH = """
bear animal: The bear slept in its cave all winter. | A brown bear caught a fish in the river. | We saw a bear with two cubs in the forest. | The hunter followed the tracks of a bear.
bear endure: She could not bear the noise any longer. | I cannot bear to see him suffer. | They had to bear the pain for days. | He must bear the cost of the trial himself.
bank money: He put his money in the bank. | The bank raised the interest on loans. | She works as a clerk in a bank. | The bank refused to lend them the money.
bank river: They sat on the bank and watched the boats. | Trees grew along the bank of the stream. | The river rose above its bank after the rain. | He swam across and climbed the muddy bank.
bat animal: A bat flew out of the cave at night. | The bat hung upside down from the roof. | The small bat eats insects in the dark. | A bat finds its way by sound.
bat club: He hit the ball with his bat. | The player swung the bat and missed. | She bought a new wooden bat for the game. | The boy dropped his bat and ran.
spring season: The flowers come out in spring. | Last spring it rained for weeks. | Birds return to the garden every spring. | We sow the corn in early spring.
spring metal: The spring inside the clock was broken. | A metal spring closes the door. | He pressed the spring and let it go. | The old bed had a rusty spring.
light lamp: She turned on the light in the kitchen. | The light of the sun filled the room. | There was no light in the dark street. | A bright light shone through the window.
light weight: The bag was light and easy to carry. | He wore a light coat in summer. | She is as light as a feather. | They ate a light meal before the journey.
match game: Our team won the match by two goals. | They watched the football match on television. | The match ended without a winner. | He hurt his leg during the match.
match fire: He struck a match to light the fire. | The match burned down to his fingers. | She lit the candle with a match. | There was one match left in the box.
"""
_CHINESE = """
苹果 水果: 他每天吃一个苹果。 | 树上的苹果已经红了。 | 妈妈买了两斤苹果和香蕉。 | 这个苹果又甜又脆。
苹果 公司: 苹果公司发布了新手机。 | 他在苹果公司做工程师。 | 苹果的股票今天上涨了。 | 苹果推出了新的电脑系统。
杜鹃 鸟: 杜鹃在树林里叫个不停。 | 一只杜鹃飞到了树枝上。 | 杜鹃把蛋下在别的鸟的窝里。 | 春天常常听到杜鹃的叫声。
杜鹃 花: 山坡上的杜鹃开得很红。 | 她在花盆里种了一棵杜鹃。 | 花园里的杜鹃开花了。 | 杜鹃的花瓣落了一地。
黄牛 动物: 农民牵着黄牛去耕地。 | 一头黄牛在河边吃草。 | 他家养了三头黄牛。 | 黄牛拉着车慢慢地走。
黄牛 票贩: 他从黄牛手里买了高价票。 | 警察抓住了几个卖票的黄牛。 | 车站门口的黄牛在倒卖车票。 | 演唱会的票都被黄牛抢光了。
地道 隧道: 战士们在地道里躲避敌人。 | 村民挖了一条长长的地道。 | 这条地道通到村外的山里。 | 敌人没有发现地道的入口。
地道 纯正: 他说一口地道的北京话。 | 这家饭馆的川菜很地道。 | 她的英语说得非常地道。 | 我想吃一碗地道的兰州拉面。
"""
SAMPLES = {"en": _ENGLISH, "zh": _CHINESE}


def sample_senses(language: str) -> list[SenseExample]:
    """The built-in sample: four sentences per sense, each with its word marked."""
    if language not in SAMPLES:
        raise FirthError(
            f"no sample in the language '{language}': choose {' or '.join(SAMPLES)}, or give your own data"
        )
    found: list[SenseExample] = []
    for line in SAMPLES[language].strip().splitlines():
        name, _, sentences = line.partition(": ")
        word, _, sense = name.partition(" ")
        for text in sentences.split("|"):
            words, place = _around(text.strip(), word)
            mark = SenseMark(f"{word}.{len(found)}", word, place, place + 1, (sense,))
            found.append(SenseExample(words, [mark], f"sample: {text.strip()}"))
    return found


def sample_texts(language: str) -> list[str]:
    """The same sentences as plain texts."""
    senses = [line.partition(": ")[2] for line in SAMPLES[language].strip().splitlines()]
    return [text.strip() for sentences in senses for text in sentences.split("|")]


def _around(text: str, word: str) -> tuple[list[str], int]:
    """The words of a sentence, with this one as a single word, and its position."""
    start = text.index(f" {word} ") + 1 if f" {word} " in text else text.index(word)
    head, tail = text[:start], text[start + len(word) :]
    before = [head[first:last] for first, last in split_words(head)]
    return [*before, word, *(tail[first:last] for first, last in split_words(tail))], len(before)


def of_words(
    hidden_LTD: NDArray[np.float32], words_T: NDArray[np.int64], num_words: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each word's tokens in every layer, [L, W, D], and which words have a token; the others are zeros."""
    inside = words_T >= 0
    numbers = words_T[inside]
    counts_W = np.bincount(numbers, minlength=num_words)[:num_words]
    sums_WLD = np.zeros((num_words, len(hidden_LTD), hidden_LTD.shape[-1]), np.float32)
    kept = numbers < num_words
    np.add.at(sums_WLD, numbers[kept], hidden_LTD[:, inside].transpose(1, 0, 2)[kept])
    means_LWD = sums_WLD.transpose(1, 0, 2) / np.maximum(counts_W, 1)[:, None].astype(np.float32)
    return np.ascontiguousarray(means_LWD), counts_W > 0


_BATCH, _EPOCHS, _STEPS, _RATE = 256, 15, 1500, 5e-3  # at least so many steps, however few the words


@dataclass(frozen=True)
class TaggedWords:
    """Words in context: their forms, tags and vectors of every layer."""

    words: list[str]
    tags: list[str]
    vectors: NDArray[np.float32]  # [L, N, D]


@dataclass(frozen=True)
class TagScores:
    """Accuracies on test words; those of the probe by layer."""

    accuracy: list[float]
    control: list[float]
    unseen: list[float] | None  # of the real task, on words that training did not have; None without any
    majority: float  # always the most frequent tag
    per_word: float  # the tag that the word has most often; for unseen words the most frequent of all
    num_train: int
    num_test: int
    num_unseen: int
    num_tags: int

    @property
    def selectivity(self) -> list[float]:
        return [real - control for real, control in zip(self.accuracy, self.control, strict=True)]


def control_tags(words: Sequence[str], counts: Counter[str], seed: int = 0) -> list[str]:
    """One tag per word form, drawn by the tags' frequencies; the same form always gets the same tag (section 2)."""
    tags = sorted(counts)
    edges = np.cumsum([counts[tag] for tag in tags]) / sum(counts.values())
    forms = np.asarray([zlib.crc32(word.encode()) for word in words], np.uint64)
    places = np.searchsorted(edges, uniform(seed, 0xC0147, forms), side="right")
    return [tags[place] for place in np.minimum(places, len(tags) - 1).tolist()]


def score_tags(train: TaggedWords, test: TaggedWords, seed: int = 0) -> TagScores:
    """Trains the probes of all layers, for the tags and the control task, and measures them and the baselines."""
    counts = Counter(train.tags)
    known = {tag: number for number, tag in enumerate(sorted(counts))}
    labels_NK = np.stack([_numbers(tags, known) for tags in (train.tags, control_tags(train.words, counts, seed))], 1)
    goals_NK = np.stack([_numbers(tags, known) for tags in (test.tags, control_tags(test.words, counts, seed))], 1)
    guesses_LNK = predict(fit(train.vectors, labels_NK, len(known), seed), test.vectors)
    right_LNK = guesses_LNK == goals_NK
    seen = set(train.words)
    new_N = np.asarray([word not in seen for word in test.words], np.bool_)
    majority, per_word = baselines(train, test)
    return TagScores(
        accuracy=right_LNK[:, :, 0].mean(1).tolist(),
        control=right_LNK[:, :, 1].mean(1).tolist(),
        unseen=right_LNK[:, new_N, 0].mean(1).tolist() if new_N.any() else None,
        majority=majority,
        per_word=per_word,
        num_train=len(train.words),
        num_test=len(test.words),
        num_unseen=int(new_N.sum()),
        num_tags=len(known),
    )


def _numbers(tags: Sequence[str], known: dict[str, int]) -> NDArray[np.int64]:
    """The number of each tag; -1 if it is not in training, so that no prediction is correct."""
    return np.asarray([known.get(tag, -1) for tag in tags], np.int64)


def baselines(train: TaggedWords, test: TaggedWords) -> tuple[float, float]:
    """The accuracy of the most frequent tag, and of each word's own most frequent one."""
    majority = _most(Counter(train.tags))
    by_word: dict[str, Counter[str]] = {}
    for word, tag in zip(train.words, train.tags, strict=True):
        by_word.setdefault(word, Counter())[tag] += 1
    best = {word: _most(counts) for word, counts in by_word.items()}
    always = np.mean([tag == majority for tag in test.tags])
    own = np.mean([best.get(word, majority) == tag for word, tag in zip(test.words, test.tags, strict=True)])
    return float(always), float(own)


def _most(counts: Counter[str]) -> str:
    """The most frequent; ties go to the first by name, so that the order of the text does not matter."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


@dataclass(frozen=True)
class Probes:
    """A linear map for each layer and task, over standardised vectors."""

    mean: torch.Tensor  # [L, 1, D]
    scale: torch.Tensor  # [L, 1, D]
    weight: torch.Tensor  # [L, D, K * C]
    bias: torch.Tensor  # [L, 1, K * C]
    num_tasks: int

    def scores(self, vectors_LND: torch.Tensor) -> torch.Tensor:
        """[L, N, K, C]."""
        normal = (vectors_LND - self.mean) * self.scale
        return torch.baddbmm(self.bias, normal, self.weight).unflatten(-1, (self.num_tasks, -1))


def fit(vectors: NDArray[np.float32], labels_NK: NDArray[np.int64], num_labels: int, seed: int = 0) -> Probes:
    """Softmax regression by Adam with a decreasing learning rate. Layers and tasks are independent (their losses are added and
    Adam is element-wise), so training them together gives the same result, faster."""
    vectors_LND, labels = torch.from_numpy(vectors), torch.from_numpy(labels_NK)
    num_layers, num_words, dim = vectors_LND.shape
    num_tasks = labels.shape[1]
    mean = vectors_LND.mean(1, keepdim=True)
    spread = vectors_LND.std(1, keepdim=True, correction=0)
    scale = torch.where(spread > 1e-6, 1 / spread.clamp_min(1e-6), torch.zeros_like(spread))
    weight = torch.zeros(num_layers, dim, num_tasks * num_labels, requires_grad=True)
    bias = torch.zeros(num_layers, 1, num_tasks * num_labels, requires_grad=True)
    probes = Probes(mean, scale, weight, bias, num_tasks)
    optimizer = torch.optim.Adam([weight, bias], lr=_RATE)
    num_batches = -(-num_words // _BATCH)
    num_epochs = max(_EPOCHS, -(-_STEPS // num_batches))
    num_steps = num_epochs * num_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / num_steps)
    for epoch in range(num_epochs):
        order = torch.from_numpy(generator(seed, 0x9B0BE, epoch).permutation(num_words))
        for start in range(0, num_words, _BATCH):
            rows = order[start : start + _BATCH]
            scores = probes.scores(vectors_LND[:, rows])
            goals = labels[rows].expand(num_layers, -1, -1)
            loss = functional.cross_entropy(scores.flatten(0, 2), goals.flatten(), reduction="sum") / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return Probes(mean, scale, weight.detach(), bias.detach(), num_tasks)


def predict(probes: Probes, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best label of each word, layer and task, [L, N, K]."""
    with torch.inference_mode():
        parts = [probes.scores(part).argmax(-1) for part in torch.from_numpy(vectors).split(4096, dim=1)]
        found: NDArray[np.int64] = torch.cat(parts, dim=1).numpy()
    return found
