"""fastText's classifier against its plain twins: rows of texts, each loss, threads, the tree, the search."""

import heapq
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from classifier_twins import Twin, merged, ngram_buckets, rows_of, words_of

from firth.core.errors import FirthError
from firth.vectors import classifier_training
from firth.vectors.classifier import (
    BEHIND_WORDS,
    DROPPED,
    EMPTY,
    Classifier,
    ClassifierConfig,
    Features,
    Loss,
    build_tree,
    scan_texts,
    sigmoid_by_table,
)
from firth.vectors.classifier_training import (
    ClassifierTraining,
    LabelledTexts,
    Search,
    Trial,
    label_texts,
    train_classifier,
)
from firth.vectors.fasttext_format import read_classifier, write_classifier

STRANGE = [
    "a b a", "", "  \t ", "naïve 中文 词", "x\x0by\x0cz\rq\x00r", "one\ntwo", "__label__x a b", "a </s> never read",
    "🙂 " * 3, "word" * 40,
]  # fmt: skip
LOSSES: list[Loss] = ["softmax", "hierarchical", "negative", "one_vs_all"]


def labelled(count: int, seed: int = 0, most: int = 1, num_labels: int = 7) -> LabelledTexts:
    """Texts of 1 to 12 words with labels that some of the words give away."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        chosen = random.choice(num_labels, random.integers(1, most + 1), replace=False)
        words = [f"w{random.zipf(1.4) % 60}" for _ in range(random.integers(0, 10))] + [f"l{one}" for one in chosen]
        texts.append(" ".join(random.permutation(words)))
        labels.append([f"label {one}" for one in chosen])
    return label_texts(scan_texts(texts), labels)


def test_words_are_cut_as_the_original_cuts_them() -> None:
    scan = scan_texts(STRANGE)
    found = [
        [scan.spellings[one] for one in scan.tokens[first:last].tolist()]
        for first, last in zip(scan.ends[:-1].tolist(), scan.ends[1:].tolist(), strict=True)
    ]
    assert found == [words_of(text.replace("\n", " ")) for text in STRANGE]
    assert len(scan_texts([])) == 0


def test_many_types_grow_the_table() -> None:
    words = [f"w{number}" for number in range(50_000)]
    scan = scan_texts([" ".join(words), " ".join(reversed(words))])
    assert scan.spellings == [b"</s>", *(word.encode() for word in words)]
    assert scan.counts.tolist() == [2] * 50_001


@pytest.mark.parametrize(("word_ngrams", "min_n", "max_n"), [(1, 0, 0), (3, 0, 0), (1, 2, 4), (2, 0, 3)])
@pytest.mark.parametrize("missing", [BEHIND_WORDS, EMPTY, DROPPED])
def test_rows_are_the_twins(word_ngrams: int, min_n: int, max_n: int, missing: int) -> None:
    known, bucket = [b"</s>", b"a", "中文".encode(), b"two"], 101
    keys = np.arange(0, bucket, 3)
    rows = (len(known) + np.arange(len(keys))).astype(np.int32)

    def row(number: int) -> int | None:
        if missing == BEHIND_WORDS:
            return len(known) + number
        return len(known) + number // 3 if number % 3 == 0 else EMPTY if missing == EMPTY else None

    features = Features(known, word_ngrams, min_n, max_n, bucket, missing, keys, rows)
    found, ends = features.of(scan_texts(STRANGE))
    expected = [rows_of(text.replace("\n", " "), known, word_ngrams, min_n, max_n, bucket, row) for text in STRANGE]
    assert [found[a:b].tolist() for a, b in pairwise(ends)] == expected
    if missing == EMPTY:  # a whole table instead of a list, as in training
        table = np.full(bucket, EMPTY, np.int32)
        table[keys] = rows
        again, _ = Features(known, word_ngrams, min_n, max_n, bucket, missing).of(scan_texts(STRANGE), table)
        np.testing.assert_array_equal(again, found)


def test_only_buckets_that_occur_have_rows() -> None:
    texts = labelled(40)
    training = ClassifierTraining(texts, ClassifierConfig(word_ngrams=2, min_n=2, max_n=3, bucket=997, threads=1))
    assert training.rows.min() >= 0
    assert set(training.rows.tolist()) == set(range(training.num_rows))
    first = texts.scan.tokens[: texts.scan.ends[1]]
    used = set(training.features.keys.tolist())
    assert set(ngram_buckets([texts.scan.spellings[one] for one in first.tolist()], 2, 997)) <= used


def test_the_tree_is_a_huffman_tree() -> None:
    counts = [13, 8, 8, 5, 3, 2, 1, 1]
    tree = build_tree(counts)
    heap = list(counts)
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        cost += both
        heapq.heappush(heap, both)
    lengths = np.diff(tree.path_ends)
    assert int((lengths * counts).sum()) == cost
    assert (np.diff(lengths) >= 0).all()
    assert tree.path_nodes[tree.path_ends[1:] - 1].tolist() == [len(counts) - 2] * len(counts)  # the root is the last
    # worked out by hand: 6 and 7 are joined first, the later leaf on the left
    assert (tree.left[0], tree.right[0]) == (7, 6)
    assert build_tree([3]).path_nodes.tolist() == []


def test_the_sigmoid_has_512_steps() -> None:
    scores = np.asarray([-9, -8, -1.234, 0, 0.01, 7.99, 8, 20], np.float32)
    steps = np.floor((scores[1:-1].astype(np.float64) + 8) * 32) / 32 - 8
    np.testing.assert_allclose(sigmoid_by_table(scores)[1:-1], 1 / (1 + np.exp(-steps)), rtol=1e-6)
    assert sigmoid_by_table(scores)[[0, -1]].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("num_labels", [2, 7, 20])
def test_every_loss_learns_as_its_twin(loss: Loss, most: int, num_labels: int) -> None:
    texts = labelled(60, most=min(most, num_labels), num_labels=num_labels)
    config = ClassifierConfig(dim=10, word_ngrams=2, bucket=500, loss=loss, learning_rate=0.8, epochs=2, threads=1)
    training = ClassifierTraining(texts, config)
    twin = Twin(training.inputs[:, :10], training.outputs[: len(texts.labels), :10], loss)
    twin.noise = classifier_training.noise_table(texts.label_counts, 0.5)
    tree = build_tree(texts.label_counts.tolist())
    for label in range(len(texts.labels)):
        part = slice(tree.path_ends[label], tree.path_ends[label + 1])
        twin.paths.append(list(zip(tree.path_nodes[part].tolist(), tree.path_goals[part].tolist(), strict=True)))
    for epoch in range(config.epochs):
        order = classifier_training.generator(config.seed, 2, epoch).permutation(len(texts.scan))
        rates = training.rates(epoch, order)
        key = int(classifier_training.hashed(config.seed, 3, epoch))
        for place, text in enumerate(order.tolist()):
            rows = training.rows[training.row_ends[text] : training.row_ends[text + 1]].tolist()
            labels = texts.numbers[texts.ends[text] : texts.ends[text + 1]].tolist()
            twin.step(rows, labels, float(rates[place]), text, key)
    training.run()
    np.testing.assert_allclose(training.inputs[:, :10], twin.inputs, atol=2e-5)
    np.testing.assert_allclose(training.outputs[: len(texts.labels), :10], twin.outputs, atol=2e-5)
    assert not training.outputs[len(texts.labels) :].any()
    assert not training.inputs[:, 10:].any()


def test_the_rate_falls_to_nothing() -> None:
    texts = labelled(30)
    training = ClassifierTraining(texts, ClassifierConfig(learning_rate=0.4, epochs=3, threads=1))
    order = np.arange(30)
    rates = np.concatenate([training.rates(epoch, order) for epoch in range(3)])
    assert rates[0] == np.float32(0.4)
    assert (np.diff(rates) < 0).all()
    sizes = np.diff(texts.scan.ends) + 1  # words, the end, a label
    np.testing.assert_allclose(rates[-1], 0.4 * sizes[-1] / (3 * sizes.sum()), rtol=1e-5)


def test_threads_learn_what_each_learned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of two threads: rows of one thread as it left them, rows of both with the changes of both."""
    monkeypatch.setattr(classifier_training, "_THREAD_ROWS", 1)
    texts = labelled(40)
    config = ClassifierConfig(dim=8, word_ngrams=2, bucket=300, threads=2, epochs=1, learning_rate=0.5)
    together = ClassifierTraining(texts, config)
    monkeypatch.setattr(ClassifierTraining, "_block_rows", lambda self: 10**6)
    start_in, start_out = together.inputs[: together.num_rows].copy(), together.outputs.copy()
    together.room = together.num_rows
    together.inputs = np.concatenate((start_in, np.zeros((2 * together.num_rows, 8), np.float32)))
    together.run()
    order = classifier_training.generator(0, 2, 0).permutation(40)
    rates, key = together.rates(0, order), np.uint64(int(classifier_training.hashed(0, 3, 0)))
    sums = np.cumsum(np.diff(together.row_ends)[order])
    border = int(np.searchsorted(sums, sums[-1] / 2))
    parts = []
    for some in (slice(0, border), slice(border, 40)):
        alone = ClassifierTraining(texts, config.replace(threads=1))
        alone.kernel_texts, alone.output = together.kernel_texts, together.output
        alone.part(order[some], rates[some], key, np.zeros(0, np.int32), 0, alone.outputs)
        parts.append(alone)
    for row in range(together.num_rows):
        expected = merged(start_in[row], [part.inputs[row] for part in parts])
        np.testing.assert_allclose(together.inputs[row], expected, atol=1e-6)
    for row in range(len(texts.labels)):
        expected = merged(start_out[row], [part.outputs[row] for part in parts])
        np.testing.assert_allclose(together.outputs[row], expected, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_seed_and_threads_give_the_same_bytes(
    threads: int, loss: Loss, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(classifier_training, "_THREAD_ROWS", 1)
    texts = labelled(500, most=2)
    config = ClassifierConfig(
        dim=12, word_ngrams=2, bucket=2000, loss=loss, threads=threads, epochs=4, min_n=2, max_n=3
    )
    written = []
    for name in ("a", "b"):
        found, value = train_classifier(texts, config)
        assert np.isfinite(value)
        write_classifier(found, tmp_path / f"{name}.bin")
        written.append((tmp_path / f"{name}.bin").read_bytes())
    assert written[0] == written[1]
    other, _ = train_classifier(texts, config.replace(seed=1))
    write_classifier(other, tmp_path / "c.bin")
    assert (tmp_path / "c.bin").read_bytes() != written[0]


def accuracy(found: Classifier, texts: LabelledTexts) -> float:
    guessed = found.scores(found.vectors_of(texts.scan)).argmax(1)
    names = [found.labels[one] for one in guessed.tolist()]
    return float(np.mean([name == texts.labels[one] for name, one in zip(names, texts.numbers.tolist(), strict=True)]))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("threads", [1, 2])
def test_it_learns(loss: Loss, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier_training, "_THREAD_ROWS", 1)
    config = ClassifierConfig(dim=16, loss=loss, epochs=20, learning_rate=0.5, threads=threads)
    found, _ = train_classifier(labelled(600), config)
    assert accuracy(found, labelled(200, seed=9)) > 0.97


def test_texts_sorted_by_label_are_no_trap() -> None:
    random = np.random.default_rng(0)
    labels = sorted(str(one) for one in random.integers(0, 4, 800))
    texts = [f"w{random.integers(30)} l{label} w{random.integers(30)}" for label in labels]
    data = label_texts(scan_texts(texts), [[label] for label in labels])
    found, _ = train_classifier(data, ClassifierConfig(dim=16, epochs=10, learning_rate=0.5, threads=1))
    assert accuracy(found, data) > 0.97


def test_vectors_are_where_words_begin() -> None:
    texts = labelled(30)
    vectors = {"w1": np.full(10, 3.0, np.float32), "unheard": np.full(10, 5.0, np.float32)}
    training = ClassifierTraining(texts, ClassifierConfig(dim=10, threads=1), vectors)
    assert training.inputs[training.features.number[b"w1"], :10].tolist() == [3.0] * 10
    assert training.inputs[training.features.number[b"unheard"], :10].tolist() == [5.0] * 10
    counts = dict(zip(training.vocabulary.words, training.vocabulary.counts.tolist(), strict=True))
    assert counts[b"unheard"] == 1


def test_rare_words_and_labels_are_passed_over(tmp_path: Path) -> None:
    scan = scan_texts(["a a b", "a c", "b d", ""])
    texts = label_texts(scan, [["x"], ["x"], ["y"], ["x"]], min_count=2)
    assert texts.labels == ("x",)
    training = ClassifierTraining(texts, ClassifierConfig(min_count=2, min_count_label=2, threads=1))
    assert training.vocabulary.words == [b"</s>", b"a", b"b"]
    training.run()
    with pytest.raises(FirthError, match="no word occurs 9 times"):
        ClassifierTraining(texts, ClassifierConfig(min_count=9))
    with pytest.raises(FirthError, match="no label occurs 9 times"):
        ClassifierTraining(label_texts(scan, [["x"]] * 4, 9), ClassifierConfig(min_count_label=9))
    with pytest.raises(FirthError, match="needs two labels"):
        ClassifierTraining(texts, ClassifierConfig(loss="negative"))
    write_classifier(training.classifier(), tmp_path / "one.bin")
    assert read_classifier(tmp_path / "one.bin").probabilities(["a"]).shape == (1, 1)


def test_the_search_stays_within_bounds_and_leaves_what_is_fixed() -> None:
    start = ClassifierConfig(dim=30, threads=1)
    asked = []
    for _ in range(2):
        search = Search(start, {"dim", "min_n"})
        for number in range(60):
            config = search.ask(number / 60)
            search.tell(Trial(config, -abs(config.learning_rate - 1.0), 1.0))
        asked.append([trial.config for trial in search.trials])
    assert asked[0] == asked[1]
    assert asked[0][0] == start
    assert {(config.dim, config.min_n, config.max_n) for config in asked[0]} == {(30, 0, 0)}
    assert search.best is not None
    assert abs(search.best.config.learning_rate - 1.0) < 0.2
    free = Search(start, set())
    for number in range(60):
        free.tell(Trial(free.ask(number / 60), 0.0, 1.0))
    assert len({trial.config.max_n for trial in free.trials}) > 2
