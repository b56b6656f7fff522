"""The classifier of the original program: its hashes, its steps, its files both ways, whole and quantised."""

import struct
from pathlib import Path

import fasttext
import numpy as np
import pytest
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.vectors.classifier import Classifier, ClassifierConfig, DenseTable, Loss, QuantizedTable, scan_texts
from firth.vectors.classifier_kernels import SOFTMAX, Output, Texts, train_texts
from firth.vectors.classifier_training import label_texts, train_classifier
from firth.vectors.fasttext_format import is_classifier_file, read_classifier, write_classifier
from firth.vectors.formats import load_vectors
from firth.vectors.learners import padded

LOSSES: dict[Loss, str] = {"softmax": "softmax", "hierarchical": "hs", "negative": "ns", "one_vs_all": "ova"}
LENGTHS = [(1, 0, 0), (3, 0, 0), (2, 2, 4)]
LANGUAGES = {
    "en": "the of and to in is was that for it with as his on be at by had not but",
    "de": "der die und das nicht mit sich ein auf für ist im dem von zu des über größe",
    "zh": "的 一 是 在 不 了 有 和 人 这 中 大 为 上 个 国 我 以 要 他",
    "fr": "le de un à être et en avoir que pour dans ce il qui ne sur se pas plus été",
}
STRANGE = ["", "__label__en the", "the </s> der", "größe\tété\x0bnaïve", "的 一 国国国", "unheard of 🙂 words"]


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        label = str(random.choice(list(LANGUAGES)))
        found.append((" ".join(random.choice(LANGUAGES[label].split(), random.integers(2, 9))), label))
    return found


TEXTS = [text for text, _ in sentences(60, seed=5)] + STRANGE


def train_original(folder: Path, examples: list[tuple[str, str]], **settings: object) -> fasttext.FastText._FastText:
    """In many threads: with fewer than ten the original leaves a part of its matrix as it finds the memory."""
    path = folder / "train.txt"
    path.write_text("".join(f"__label__{label} {text}\n" for text, label in examples), encoding="utf-8")
    usual = {"epoch": 5, "lr": 0.5, "thread": 12, "verbose": 0, "bucket": 5000, "dim": 12, "minCount": 2}
    return fasttext.train_supervised(str(path), **(usual | settings))


def answers(model: fasttext.FastText._FastText, labels: tuple[str, ...]) -> NDArray[np.float32]:
    """[N, K]; what the original does not say (below its threshold) is not a number."""
    found = np.full((len(TEXTS), len(labels)), np.nan, np.float32)
    for row, text in enumerate(TEXTS):
        for probability, label in model.f.predict(text + "\n", -1, 0.0, "strict"):
            found[row, labels.index(label.removeprefix("__label__"))] = probability
    return found


def check_same(model: fasttext.FastText._FastText, ours: Classifier, least: float = 0.8) -> None:
    theirs, mine = answers(model, ours.labels), ours.probabilities(TEXTS)
    said = np.isfinite(theirs)
    assert said.mean() > least
    np.testing.assert_allclose(mine[said], theirs[said], atol=1e-5, rtol=0)
    vectors = np.stack([np.asarray(model.get_sentence_vector(text)) for text in TEXTS])
    np.testing.assert_allclose(ours.vectors(TEXTS), vectors, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("word_ngrams", "minn", "maxn"), LENGTHS)
def test_files_of_the_original_answer_the_same(
    loss: Loss, word_ngrams: int, minn: int, maxn: int, tmp_path: Path
) -> None:
    lengths = {"wordNgrams": word_ngrams, "minn": minn, "maxn": maxn}
    model = train_original(tmp_path, sentences(300), loss=LOSSES[loss], **lengths)
    model.save_model(str(tmp_path / "theirs.bin"))
    assert is_classifier_file(tmp_path / "theirs.bin")
    ours = read_classifier(tmp_path / "theirs.bin")
    assert isinstance(ours.inputs, DenseTable)
    assert ours.config.loss == loss
    assert [f"__label__{label}" for label in ours.labels] == model.labels
    check_same(model, ours)
    write_classifier(ours, tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "theirs.bin").read_bytes()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("word_ngrams", "minn", "maxn"), LENGTHS)
def test_the_original_reads_our_files(loss: Loss, word_ngrams: int, minn: int, maxn: int, tmp_path: Path) -> None:
    examples = sentences(300)
    data = label_texts(scan_texts([text for text, _ in examples]), [[label] for _, label in examples])
    config = ClassifierConfig(
        dim=12, word_ngrams=word_ngrams, min_n=minn, max_n=maxn, bucket=5000, loss=loss, min_count=2, threads=1
    )
    ours, _ = train_classifier(data, config.replace(learning_rate=0.5))
    write_classifier(ours, tmp_path / "ours.bin")
    model = fasttext.load_model(str(tmp_path / "ours.bin"))
    assert model.words == [word.decode() for word in ours.features.words]
    check_same(model, ours)
    check_same(model, read_classifier(tmp_path / "ours.bin"))


@pytest.mark.parametrize("loss", ["softmax", "hierarchical", "one_vs_all"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"qnorm": True},
        {"qnorm": True, "dsub": 5},
        {"qnorm": True, "cutoff": 300},
        {"cutoff": 600, "retrain": True, "dsub": 4},
    ],
    ids=["plain", "norms", "uneven", "cut", "retrained"],
)
def test_quantised_files_answer_the_same(loss: Loss, settings: dict[str, object], tmp_path: Path) -> None:
    """Language identification as the published lid.176.ftz: character n-grams, norms apart, a cut dictionary."""
    examples = sentences(400)
    model = train_original(tmp_path, examples, loss=LOSSES[loss], wordNgrams=2, minn=2, maxn=4)
    if "retrain" in settings:
        settings = settings | {"input": str(tmp_path / "train.txt"), "thread": 1}
    model.quantize(**settings)
    model.save_model(str(tmp_path / "model.ftz"))
    ours = read_classifier(tmp_path / "model.ftz")
    assert isinstance(ours.inputs, QuantizedTable)
    check_same(model, ours)
    with pytest.raises(FirthError, match="quantised"):
        write_classifier(ours, tmp_path / "whole.bin")
    with pytest.raises(FirthError, match="quantized"):
        load_vectors(tmp_path / "model.ftz")
    assert not (tmp_path / "whole.bin").exists()


def test_a_quantised_output_matrix(tmp_path: Path) -> None:
    """Which needs 256 labels."""
    random = np.random.default_rng(0)
    examples = [
        (f"{TEXTS[one % 60]} word{one % 300}", f"label{one % 300}") for one in random.permutation(1500).tolist()
    ]
    model = train_original(tmp_path, examples, minCount=1)
    model.quantize(qnorm=True, qout=True)
    model.save_model(str(tmp_path / "model.ftz"))
    ours = read_classifier(tmp_path / "model.ftz")
    assert isinstance(ours.outputs, QuantizedTable)
    check_same(model, ours)


@pytest.mark.parametrize("word_ngrams", [1, 2])
def test_a_training_takes_the_steps_of_the_original(word_ngrams: int, tmp_path: Path) -> None:
    """From its first matrix, in its order and with its rates (which fall every hundred tokens) to its last matrix."""
    examples = sentences(200)
    # so large that its memory is new and zero wherever one thread leaves it as it is
    settings = {"thread": 1, "dim": 100, "bucket": 120_000, "wordNgrams": word_ngrams, "minCount": 1, "lr": 1.5}
    settings |= {"maxn": 3, "minn": 3}
    train_original(tmp_path, examples, epoch=0, **settings).save_model(str(tmp_path / "first.bin"))
    train_original(tmp_path, examples, epoch=2, **settings).save_model(str(tmp_path / "last.bin"))
    first, last = read_classifier(tmp_path / "first.bin"), read_classifier(tmp_path / "last.bin")
    assert isinstance(first.inputs, DenseTable)
    assert isinstance(last.inputs, DenseTable)
    assert isinstance(last.outputs, DenseTable)
    scan = scan_texts([text for text, _ in examples])
    rows, row_ends = first.features.of(scan)
    numbers = np.asarray([first.labels.index(label) for _, label in examples])
    texts = Texts(rows, row_ends, numbers, np.arange(len(examples) + 1))
    sizes = np.diff(scan.ends) + 1
    rates, total, done, waiting = list[float](), 2 * int(sizes.sum()), 0, 0
    while done < total:  # what is waiting does not count, so it goes on a little behind the end of the second epoch
        rates.append(1.5 * (1.0 - done / total))
        waiting += int(sizes[(len(rates) - 1) % len(sizes)])
        if waiting > 100:
            done, waiting = done + waiting, 0
    inputs, outputs = padded(len(first.inputs.matrix), 100), padded(6, 100)
    inputs[:, :100] = first.inputs.matrix
    none, empty = np.zeros(1, np.int64), np.zeros(0, np.int32)
    output = Output(SOFTMAX, 4, np.zeros((4, 2), np.uint32), 5, none, empty, np.zeros(0, np.float32), 12)
    order, longest = np.arange(len(rates)) % len(examples), int(np.diff(row_ends).max())
    matrices = (inputs.reshape(-1), outputs.reshape(-1))
    train_texts(texts, order, np.asarray(rates, np.float32), empty, 0, *matrices, output, 104, longest, np.uint64(1))
    np.testing.assert_allclose(outputs[:4, :100], last.outputs.matrix, atol=1e-5)
    used = np.unique(rows)  # the original leaves some of the others unset: what stands there is by chance
    np.testing.assert_allclose(inputs[used, :100], last.inputs.matrix[used], atol=1e-5)
    assert np.abs(last.outputs.matrix).max() > 0.05


# -- files that are not whole or not true


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("files")
    model = train_original(folder, sentences(300), minn=2, maxn=3, bucket=600, dim=4, wordNgrams=2)
    model.save_model(str(folder / "m.bin"))
    model.quantize(qnorm=True, cutoff=400)
    model.save_model(str(folder / "m.ftz"))
    return {name: (folder / name).read_bytes() for name in ("m.bin", "m.ftz")}


@pytest.mark.parametrize("name", ["m.bin", "m.ftz"])
def test_a_file_that_is_cut_anywhere_is_refused(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    raw = files[name]
    path = tmp_path / name
    for size in [*range(0, 120, 7), *np.linspace(120, len(raw) - 1, 60).astype(int).tolist()]:
        path.write_bytes(raw[:size])
        with pytest.raises(FirthError, match=r"copy it again|empty"):
            read_classifier(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(FirthError, match="more follows"):
        read_classifier(path)


@pytest.mark.parametrize("name", ["m.bin", "m.ftz"])
def test_wrong_sizes_are_refused_before_anything_is_made(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """Every number of the header and of the matrices made huge or negative: an error in a sentence, no memory."""
    raw = files[name]
    path = tmp_path / name
    places = [*range(8, 8 + 48 + 8 + 28, 4)]
    found = read_places(raw)
    refused = 0
    for place in [*places, *found]:
        for value in (2**31 - 1, -5):
            path.write_bytes(raw[:place] + struct.pack("<i", value) + raw[place + 4 :])
            said = refusal(path)
            refused += said is not None
            assert said is None or (said.startswith(str(path)) and "\n" not in said), said
    assert refused > len(found) * 2 - 4


def refusal(path: Path) -> str | None:
    """What is said against a file; none if it is read (a number of no consequence was changed)."""
    try:
        read_classifier(path).probabilities(["the of"])
    except FirthError as error:
        return str(error)
    return None


def read_places(raw: bytes) -> list[int]:
    """Where the sizes behind the dictionary stand."""
    entries, pruned = struct.unpack_from("<i", raw, 64)[0], struct.unpack_from("<q", raw, 84)[0]
    place = 92
    for _ in range(entries):
        place = raw.index(b"\0", place) + 10
    place += max(pruned, 0) * 8
    quantised = raw[place]
    return [place + 2, place + 10, place + 18] if quantised else [place + 1, place + 9]


def test_damaged_entries(files: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    raw = files["m.bin"]
    end = raw.index(b"\0", 92)
    for changed, message in (
        (raw[: end + 9] + b"\1" + raw[end + 10 :], "neither a word nor a label"),
        (raw[: end + 1] + struct.pack("<q", -1) + raw[end + 9 :], "below zero"),
        (b"abcd" + raw[4:], "no fastText model"),
        (raw[:4] + struct.pack("<i", 99) + raw[8:], "format 99"),
        (b"", "empty"),
    ):
        path.write_bytes(changed)
        with pytest.raises(FirthError, match=message):
            read_classifier(path)
    vectors = Path(fasttext.__file__).parent  # a folder is no file
    assert not is_classifier_file(vectors)


def test_word_vectors_are_no_classifier(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a b c d\n" * 50)
    fasttext.train_unsupervised(
        str(tmp_path / "t.txt"), minCount=1, bucket=500, dim=4, verbose=0, thread=10
    ).save_model(str(tmp_path / "v.bin"))
    assert not is_classifier_file(tmp_path / "v.bin")
    with pytest.raises(FirthError, match="no classifier"):
        read_classifier(tmp_path / "v.bin")
