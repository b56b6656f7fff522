"""Training sentence vectors: prompts, what is right besides the given text, devices, texts without tokens."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.data.sentences import SentenceData, SentenceExample
from firth.evaluation.words import evaluate_sentences
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.sentences import SentenceConfig, SentenceEncoder, SentenceModules, pool_by_reader, text_rows
from firth.tasks.data import Reading
from firth.tasks.embed.config import EmbedConfig
from firth.tasks.embed.run import build_network
from firth.tasks.embed.scoring import score_examples
from firth.tasks.embed.training import EmbedTraining, also_right
from sample_text import english

TEXTS = [english(number) for number in range(12)]
PROMPTS = {"query": "find the passage ", "document": "a passage ", "usual": "text "}
FORMS = {
    "pairs": [SentenceExample(TEXTS[n], TEXTS[n + 6]) for n in range(6)],
    "triplets": [SentenceExample(TEXTS[n], TEXTS[n + 3], (TEXTS[n + 6],)) for n in range(3)],
    "scores": [SentenceExample(TEXTS[n], TEXTS[n + 6], label=n / 6) for n in range(6)],
    "text": [SentenceExample(text) for text in TEXTS],
}


def trained(
    run_folder: Path, form: str, loss: str, examples: list[SentenceExample] | None = None, **sentence: object
) -> tuple[EmbedTraining, EncoderModel]:
    model = firth.load(run_folder)
    assert isinstance(model, EncoderModel)
    config = SentenceConfig(prompts=PROMPTS, default_prompt="usual").replace(**sentence)
    model.sentence = SentenceEncoder(SentenceModules(config, torch.nn.Sequential()), pool_by_reader(model.reader()))
    settings = EmbedConfig(form=form, loss=loss, epochs=1, batch_size=6)
    network = build_network(settings, loss, model, model.reader())
    data = SentenceData(form, examples or FORMS[form])  # type: ignore[arg-type]
    return EmbedTraining(settings, loss, network, data, None), model


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize(
    ("form", "loss", "asked", "read"),
    [
        ("pairs", "ranking", "query", "document"),
        ("triplets", "ranking", "query", "document"),
        ("scores", "cosent", "usual", "usual"),
        ("text", "simcse", "usual", "usual"),
    ],
)
def test_texts_are_read_with_their_prompts(
    run_folder: Path, form: str, loss: str, asked: str, read: str, include_prompt: bool
) -> None:
    """What is learned are the vectors that ``encode`` gives later."""
    training, model = trained(run_folder, form, loss, include_prompt=include_prompt)
    training.network.eval()
    seen: list[torch.Tensor] = []
    plain = training.network.vectors

    def vectors(*given: object) -> torch.Tensor:
        seen.append(plain(*given).detach())  # type: ignore[arg-type]
        return seen[-1]

    vars(training.network)["vectors"] = vectors
    batch = training.batch(0)
    training.loss(batch.to("cpu"))
    texts = list(training.texts)
    first = [texts[number] for number in batch.arrays["first"].tolist()]
    second = [texts[number] for number in batch.arrays["second"].tolist()]
    wanted = np.concatenate((model.encode(first, prompt=asked), model.encode(second, prompt=read)))
    np.testing.assert_allclose(seen[0].numpy(), wanted, atol=1e-5)
    assert batch.num_tokens == sum(
        len(row)
        for some, name in ((first, asked), (second, read))
        for row in text_rows(model.reader(), SentenceConfig(), [PROMPTS[name] + text for text in some])
    )
    for name in (None, "query", "document"):
        np.testing.assert_allclose(training.encode(TEXTS, prompt=name), model.encode(TEXTS, prompt=name), atol=1e-5)


def test_dev_scores_use_prompts_and_the_similarity_of_the_model() -> None:
    asked: list[tuple[str | None, int]] = []

    def encode(texts: list[str], /, *, prompt: str | None = None) -> np.ndarray:
        asked.append((prompt, len(texts)))
        return np.asarray([[len(text), 1.0] for text in texts], np.float32)

    config = SentenceConfig(prompts=PROMPTS, similarity="dot")
    pairs = [SentenceExample("aa", "b"), SentenceExample("a", "bbb"), SentenceExample("a", "bb")]
    scores = score_examples(SentenceData("pairs", pairs), encode, config)
    assert asked == [("query", 3), ("document", 3)]
    # by dot products the longest is the nearest to all; "bbb" and "bb" are both right for "a"
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert score_examples(SentenceData("pairs", pairs), encode)["accuracy"] != scores["accuracy"]
    asked.clear()
    scored = [SentenceExample("a", "b" * n, label=float(n)) for n in (1, 2, 3)]
    assert score_examples(SentenceData("scores", scored), encode, config)["spearman"] == pytest.approx(1)
    assert score_examples(SentenceData("scores", scored), encode)["spearman"] == pytest.approx(-1)
    assert {prompt for prompt, _ in asked} == {None}


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_evaluation_uses_the_similarity_of_the_model(run_folder: Path, tmp_path: Path, similarity: str) -> None:
    _, model = trained(run_folder, "pairs", "ranking", similarity=similarity)
    assert model.sentence is not None
    rows = "".join(f"{english(n)}\t{english(n + 3)}\n" for n in range(20))
    (tmp_path / "pairs.tsv").write_text("anchor\tpositive\n" + rows, encoding="utf-8")
    found = evaluate_sentences(model, tmp_path / "pairs.tsv", Reading(None, None))
    asked = model.encode([english(n) for n in range(20)], prompt="query")
    read = model.encode([english(n + 3) for n in range(20)], prompt="document")
    scores = model.sentence.similarity(asked, read)
    ranks = (scores > np.diag(scores)[:, None]).sum(1)
    assert found["recall_at_1"] == pytest.approx((ranks == 0).mean())
    assert found["mrr_at_10"] == pytest.approx(np.where(ranks < 10, 1 / (1 + ranks), 0).mean())
    rows = "".join(f"{english(n)}\t{english(n + 3)}\t{n / 20}\n" for n in range(20))
    (tmp_path / "scores.tsv").write_text("sentence1\tsentence2\tscore\n" + rows, encoding="utf-8")
    from scipy.stats import spearmanr

    pairs = model.sentence.similarity(
        model.encode([english(n) for n in range(20)]), model.encode([english(n + 3) for n in range(20)])
    )
    wanted = spearmanr(np.diag(pairs), np.arange(20)).statistic
    assert evaluate_sentences(model, tmp_path / "scores.tsv", Reading(None, None))["spearman"] == pytest.approx(wanted)


# -- what is right besides the given text


def test_other_right_texts_are_no_negatives(run_folder: Path) -> None:
    """Several right texts of an anchor, the same text of several, an anchor among the texts: a twin in plain Python."""
    rows = [("q", "one", "far"), ("q", "two", "q"), ("p", "three", "one"), ("r", "one", "p"), ("q", "two", "four")]
    examples = [SentenceExample(first, second, (third,)) for first, second, third in rows]
    training, _ = trained(run_folder, "triplets", "ranking", examples)
    batch = training.batch(0)
    texts = list(training.texts)
    anchors = [texts[number] for number in batch.arrays["first"].tolist()]
    candidates = [texts[number] for number in batch.arrays["second"].tolist()]
    right: dict[str, set[str]] = {}
    for first, second, _ in rows:
        right.setdefault(first, {first}).add(second)
    same = [
        [text in right[anchor] and column != row for column, text in enumerate(candidates)]
        for row, anchor in enumerate(anchors)
    ]
    found = also_right(batch.arrays["first"], batch.arrays["second"], own=True)
    np.testing.assert_array_equal(found, np.asarray(same))
    training.network.eval()
    vectors = training.network.vectors(
        [training.rows[n] for n in batch.arrays["first"]] + [training.other_rows[n] for n in batch.arrays["second"]],
        10_000,
    )
    units = torch.nn.functional.normalize(vectors, dim=1).detach().numpy().astype(np.float64)
    cosines, expected = units[: len(rows)] @ units[len(rows) :].T, 0.0
    for row in range(len(rows)):
        left = [math.exp(20 * cosines[row, n]) for n in range(len(candidates)) if not same[row][n]]
        expected -= math.log(math.exp(20 * cosines[row, row]) / sum(left))
    assert float(training.loss(batch.to("cpu")).sums["embed"].detach()) == pytest.approx(expected, rel=1e-4)


# -- devices


@pytest.mark.parametrize(("form", "loss"), [("pairs", "ranking"), ("scores", "cosent"), ("text", "tsdae")])
def test_no_tensor_is_made_on_another_device(run_folder: Path, form: str, loss: str) -> None:
    """With "meta" as the usual device, whatever is not put on that of the network cannot be computed with."""
    training, _ = trained(run_folder, form, loss)
    batch = training.batch(0).to("cpu")
    with torch.device("meta"):
        total = training.loss(batch).sums["embed"]
        total.backward()
        found = training.encode(TEXTS)
    assert total.device.type == "cpu"
    assert math.isfinite(float(total.detach()))
    assert isinstance(found, np.ndarray)


class Elsewhere(torch.nn.Module):
    """A network that notes where its ids are."""

    can_pack = False

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(4, 2, device="meta")
        self.devices: set[str] = set()

    def last(self, inputs: object) -> torch.Tensor:
        given = (value for value in vars(inputs).values() if isinstance(value, torch.Tensor))
        self.devices |= {value.device.type for value in given}
        raise FirthError("seen")


def test_ids_go_to_the_device_of_the_network(run_folder: Path) -> None:
    from dataclasses import replace

    from firth.models.shared.sentences import last_hidden

    network = Elsewhere()
    reader = replace(firth.load(run_folder).reader(), module=network)  # type: ignore[attr-defined]
    with pytest.raises(FirthError, match="seen"):
        last_hidden(reader, [np.asarray([1, 2]), np.asarray([3])])
    assert network.devices == {"meta"}


# -- texts that are written again


def test_texts_without_tokens_are_left_out(run_folder: Path) -> None:
    examples = [SentenceExample(text) for text in ("\u200b", TEXTS[0], " \u200b\u0007 ", TEXTS[1])]
    training, _ = trained(run_folder, "text", "tsdae", examples)
    assert [one.text for one in training.examples] == TEXTS[:2]
    assert math.isfinite(float(training.loss(training.batch(0).to("cpu")).sums["embed"]))
    with pytest.raises(FirthError, match="no example"):
        trained(run_folder, "text", "tsdae", examples[:1])


@pytest.mark.parametrize("include_prompt", [True, False])
def test_deleted_texts_obey_case_and_prompt(run_folder: Path, include_prompt: bool) -> None:
    examples = [SentenceExample(text.upper()) for text in TEXTS]
    training, model = trained(run_folder, "text", "tsdae", examples, lowercase=True, include_prompt=include_prompt)
    reader = model.reader()
    plain = reader.tokenize

    def exact(text: str) -> object:  # as a tokenizer that keeps case would
        assert text == text.lower()
        return plain(text)

    vars(training.network)["reader"] = type("Reader", (), {**vars(reader), "tokenize": staticmethod(exact)})
    batch = training.batch(0)
    before = reader.tokenize(PROMPTS["usual"]).ids.tolist()
    for row in np.split(batch.arrays["sources"], np.cumsum(batch.arrays["source_lens"])[:-1]):
        assert row.tolist()[1 : 1 + len(before)] == before
    assert training.unpooled[0] == (0 if include_prompt else 1 + len(before))
