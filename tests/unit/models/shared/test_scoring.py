"""Scores of texts: what batches of many texts give is what one token at a time gives, written down plainly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import firth
from firth.core.errors import FirthError
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.decoding.steps import State, Stepper
from firth.models.elmo.model import ElmoModel
from firth.models.elmo.objective import ElmoPretraining
from firth.models.gpt.model import DecoderModel
from firth.models.recurrent.model import RecurrentModel
from firth.models.shared.encoder_model import EncoderModel, MaskedModel
from firth.models.shared.model import Model
from firth.models.shared.scoring import score_masked, score_next
from firth.models.unilm.model import ClozeStepper, UnilmModel

TEXTS = [
    "The old doctor found a broken clock near the river.",
    "A red boat",
    "Flibbertigibbets snarfle!",
    "他看见了新的地图。",
    "",
    "The old doctor found a broken clock near the harbour.",
    "[MASK] is written so",
    "Anna",
]
SMALL = ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "max_positions=64", "seq_len=32", "batch_size=4"]
Trained = Callable[..., Model]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A model after a few steps at a high rate, so that its probabilities are far from even."""

    def train(recipe: str, corpus: Path, *settings: str) -> Model:
        config = find_run_recipe(recipe).override([*settings, "steps=12", "learning_rate=0.02", "warmup_ratio=0"])
        folder = tmp_path_factory.mktemp("runs") / recipe
        firth.pretrain(config, corpus=corpus, out=folder)
        return firth.load(folder)

    return train


def log_softmax(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Over the last axis, in NumPy."""
    wide = scores.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    found: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return found


# -- by hand


def test_masked_by_hand() -> None:
    """A model that says of a token: e to the minus (10 x tokens hidden + the sum of what is seen). Word 0 has two tokens."""
    ids = [np.asarray([1, 5, 6, 7, 2]), np.asarray([1, 8, 2]), np.asarray([1, 2])]
    words = [np.asarray([-1, 0, 0, 1, -1]), np.asarray([-1, 0, -1]), np.asarray([-1, -1])]
    mask = 100

    def judge(ids_BT: torch.Tensor, places_B: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
        hidden = ids_BT == mask
        assert bool(hidden[torch.arange(len(ids_BT)), places_B].all())
        return -(10.0 * hidden.sum(1) + torch.where(hidden, 0, ids_BT).sum(1)) - 1000 * labels_B

    for batch_tokens in (1, 7, 1000):
        found = score_masked(ids, words, mask, judge, batch_tokens=batch_tokens)
        assert [part.tolist() for part in found] == [[-5026, -6025, -7024], [-8013], []]
        found = score_masked(ids, words, mask, judge, whole_rest=True, batch_tokens=batch_tokens)
        assert [part.tolist() for part in found] == [[-5030, -6025, -7024], [-8013], []]  # 6 is hidden, too: 20 + 10


def test_next_by_hand() -> None:
    """A model that says of a token: e to the minus (100 x the one before it + itself)."""
    rows = [np.asarray([9, 1, 2, 3, 9]), np.asarray([9, 4]), np.asarray([9, 5, 9])]

    def judge(read_BT: torch.Tensor, inside_BT: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        return -(100.0 * read_BT[inside_BT] + labels_N)

    for batch_tokens in (1, 9, 1000):
        found = score_next(rows, judge, batch_tokens)
        assert [part.tolist() for part in found] == [[-901, -102, -203, -309], [-904], [-905, -509]]


# -- masked models


def masked_twin(model: EncoderModel, text: str, whole_rest: bool) -> list[float]:
    """One row at a time, the head at every token, the softmax in NumPy."""
    assert model.token_head is not None
    encoding = model.pieces.encode(text, read_special=False)
    found = []
    for place, word in enumerate(encoding.words.tolist()):
        if word < 0:
            continue
        ids = encoding.ids.copy()
        for other in range(place, len(ids)):
            if other == place or (whole_rest and encoding.words[other] == word):
                ids[other] = model.pieces.mask_id or 0
        with torch.inference_mode():
            hidden = model.encoder(Inputs(torch.from_numpy(ids)[None])).last
            scores = model.token_head(hidden, model.encoder.embeddings.tokens.weight)
        found.append(float(log_softmax(scores[0].numpy())[place, encoding.ids[place]]))
    return found


@pytest.mark.parametrize("recipe", ["bert-tiny", "bert-tiny-modern", "ernie-tiny"])
def test_masked_models(recipe: str, corpus_folder: Path, trained: Trained) -> None:
    model = trained(recipe, corpus_folder, *SMALL)
    assert isinstance(model, EncoderModel)
    several = 0
    for method in ("masked", "masked-word"):
        found = model.score_texts(TEXTS, method)
        for text, one in zip(TEXTS, found, strict=True):
            wanted = masked_twin(model, text, method == "masked-word")
            np.testing.assert_allclose(one.log_probs, wanted, atol=1e-4)
            assert one.log_likelihood == pytest.approx(sum(wanted), abs=1e-3)
            assert one.num_tokens == len(wanted)
            assert one.end is None
            several += masked_twin(model, text, True) != masked_twin(model, text, False)
    assert several  # words of several pieces are among them
    assert model.score(TEXTS[0]) == pytest.approx(model.score_texts([TEXTS[0]])[0].log_likelihood)
    scores = np.concatenate([masked_twin(model, text, False) for text in TEXTS])
    assert model.pseudo_perplexity(TEXTS) == pytest.approx(np.exp(-scores.mean()), rel=1e-4)


def test_scores_of_chosen_places(run_folder: Path) -> None:
    model = firth.load(run_folder)
    assert isinstance(model, EncoderModel)
    encoding = model.pieces.encode(TEXTS[0])
    places = np.asarray([2, 5])
    wanted = model.score_texts([TEXTS[0]])[0].log_probs[places - 1]
    np.testing.assert_allclose(model.score_ids(encoding.ids, places), wanted, atol=1e-5)


def test_unknown_tokens_are_counted(run_folder: Path) -> None:
    model = firth.load(run_folder)
    assert isinstance(model, EncoderModel)
    (found,) = model.score_texts(["a 🐙 boat 🐙"])
    assert found.num_unknown == found.tokens.count("[UNK]") == 2


def test_xlnet(unigram_folder: Path, trained: Trained) -> None:
    """A hidden token is seen by none, its query sees all the others."""
    model = trained("xlnet-tiny", unigram_folder, *[one for one in SMALL if "max_positions" not in one])
    assert isinstance(model, MaskedModel)
    found = model.score_texts(TEXTS)
    for text, one in zip(TEXTS, found, strict=True):
        encoding = model.pieces.encode(text, read_special=False)
        wanted = []
        for place in np.flatnonzero(encoding.words >= 0):
            ids = torch.from_numpy(encoding.ids)[None].clone()
            ids[0, place] = model.pieces.mask_id or 0
            with torch.inference_mode():
                scores = model._guess(torch.tensor([[int(place)]]), ids)[0, 0].numpy()
            wanted.append(log_softmax(scores)[encoding.ids[place]])
        np.testing.assert_allclose(one.log_probs, wanted, atol=1e-4)


def test_unilm_left_to_right(corpus_folder: Path, trained: Trained) -> None:
    """Step by step as it writes: the text so far is kept, a [MASK] asks for the next token."""
    model = trained("unilm-tiny", corpus_folder, *SMALL)
    assert isinstance(model, UnilmModel)
    cls_id, mask_id = model.pieces.cls_id, model.pieces.mask_id
    assert cls_id is not None
    assert mask_id is not None
    found = model.score_texts(TEXTS, "left-to-right")
    for text, one in zip(TEXTS, found, strict=True):
        ids = model.pieces.encode(text, add_special=False, read_special=False).ids.tolist()
        stepper = ClozeStepper(model.encoder, model._scores, mask_id, 2, first_id=cls_id)
        with torch.inference_mode():
            state, wanted = stepper.start(1), []
            for before, number in zip([cls_id, *ids], ids, strict=False):
                log_probs, state = stepper.step(torch.tensor([before]), state)
                wanted.append(float(log_probs[0, number]))
        np.testing.assert_allclose(one.log_probs, wanted, atol=1e-4)
    masked = model.score_texts(TEXTS[:1])[0]
    assert masked.log_likelihood == pytest.approx(sum(masked_twin(model, TEXTS[0], False)), abs=1e-3)


# -- language models


def stepwise(stepper: Stepper[State], eos_id: int, ids: list[int]) -> list[float]:
    """log p of each token by reading one at a time, from the token that ends texts; the end last."""
    found = []
    with torch.inference_mode():
        state = stepper.start(1)
        for before, number in zip([eos_id, *ids], [*ids, eos_id], strict=True):
            log_probs, state = stepper.step(torch.tensor([before]), state)
            found.append(float(log_probs[0, number]))
    return found


def check_language_model(model: DecoderModel | RecurrentModel, texts: list[str]) -> None:
    for text, one in zip(texts, model.score_texts(texts), strict=True):
        encoding = (
            model.pieces.encode(text, add_special=False, read_special=False)
            if isinstance(model, DecoderModel)
            else model.tokens.encode(text, add_special=False)
        )
        *wanted, end = stepwise(model.stepper(), model.eos_id, encoding.ids.tolist())
        np.testing.assert_allclose(one.log_probs, wanted, atol=1e-4)
        assert one.end == pytest.approx(end, abs=1e-4)
        assert one.tokens == encoding.tokens
        assert one.log_likelihood == pytest.approx(sum(wanted), abs=1e-3)
        assert model.score(text) == pytest.approx(sum(wanted) + end, abs=1e-3)


def test_gpt(gpt_folder: Path) -> None:
    model = firth.load(gpt_folder)
    assert isinstance(model, DecoderModel)
    check_language_model(model, [text for text in TEXTS if len(model.ids(text)) < model.config.max_positions])


def test_gpt_beyond_its_positions(gpt_folder: Path) -> None:
    """A long text among short ones is scored in windows, as ``score_ids`` does."""
    model = firth.load(gpt_folder)
    assert isinstance(model, DecoderModel)
    long = " ".join([TEXTS[0]] * 8)
    first, found, _ = model.score_texts([TEXTS[1], long, TEXTS[0]])
    wanted = model.score_ids(np.append(model.ids(long), model.eos_id))
    np.testing.assert_allclose(np.append(found.log_probs, found.end or 0.0), wanted, atol=1e-4)
    np.testing.assert_allclose(first.log_probs, model.score_texts([TEXTS[1]])[0].log_probs, atol=1e-5)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [("lstm-lm", ()), ("gru-lm", ("objective.output=adaptive", "tied_output=false")), ("rnn-lm", ("max_vocab=40",))],
)
def test_recurrent(
    recipe: str, settings: tuple[str, ...], words_folder: Path, corpus_folder: Path, trained: Trained
) -> None:
    """On words, of which some are unknown, and on pieces."""
    sizes = ("embedding_dim=16", "hidden_dim=16", "batch_size=3", "seq_len=8")
    for folder in (words_folder, corpus_folder):
        model = trained(recipe, folder, *sizes, *settings)
        assert isinstance(model, RecurrentModel)
        check_language_model(model, TEXTS)
        found = model.score_texts(TEXTS)[2]
        assert found.num_unknown == found.tokens.count(model.tokens.token(model.tokens.unk_id or 0))
        assert (found.num_unknown > 0) == (folder == words_folder)


# -- ELMo

ELMO = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3", "max_vocab=60"]


def elmo_twin(
    model: ElmoModel, words: list[str], rows_VP: NDArray[np.float32], bias_V: NDArray[np.float32]
) -> list[float]:
    """Each word from the words before it alone, and from those after it alone: what is predicted is never read. The
    last number is that of the borders."""
    size = model.config.projection_dim
    number = {word: place + 3 for place, word in enumerate(model.known)}
    goals = [0, *(number.get(word, 2) for word in words), 1]

    def log_probs(places: list[int], at: int, column: slice) -> NDArray[np.float64]:
        mask_BT = torch.ones(1, len(places), dtype=torch.bool)
        hidden_BTD = model.model.layers(model.cache.rows[torch.tensor([places])], mask_BT).last
        return log_softmax(hidden_BTD[0, at, column].numpy() @ rows_VP.T + bias_V)

    with torch.inference_mode():
        places = [0, *model.cache.look_up(words)[0].tolist(), 1]
        after = [log_probs(places[:at], -1, slice(0, size))[goals[at]] for at in range(1, len(goals))]
        before = [log_probs(places[at + 1 :], 0, slice(size, None))[goals[at]] for at in range(len(goals) - 1)]
    return [*(one + other for one, other in zip(after[:-1], before[1:], strict=True)), after[-1] + before[0]]


@pytest.mark.parametrize(
    "settings", [("softmax=table",), ("softmax=characters", "softmax_network=own"), ("softmax=characters",)]
)
def test_elmo(settings: tuple[str, ...], words_folder: Path, trained: Trained) -> None:
    model = trained("elmo-tiny", words_folder, *ELMO, *settings)
    assert isinstance(model, ElmoModel)
    assert model.path is not None
    training = ElmoPretraining(RunConfig.build(Run.open(model.path).record.config, "run"), Corpus.open(words_folder))
    training.restore(model.path)
    training.module.eval()
    with torch.inference_mode():
        rows_VP = training.objective.all_rows(training.model.tokens).numpy()
    bias_V = training.objective.softmax.bias.detach().numpy()
    texts = [*TEXTS, "The red boat sleeps. Bye now."]
    for text, one in zip(texts, model.score_texts(texts), strict=True):
        sentences = model._sentences(text)[0]
        parts = [elmo_twin(model, sentence, rows_VP, bias_V) for sentence in sentences]
        np.testing.assert_allclose(one.log_probs, [number for part in parts for number in part[:-1]], atol=1e-4)
        assert one.end == pytest.approx(sum(part[-1] for part in parts), abs=1e-4)
        assert one.tokens == [word for sentence in sentences for word in sentence]
        assert one.num_unknown == sum(word not in model.known for word in one.tokens)


# -- those that cannot


def test_refused(
    run_folder: Path, words_folder: Path, unigram_folder: Path, corpus_folder: Path, trained: Trained
) -> None:
    firth.pretrain("word2vec", corpus=words_folder, out=run_folder.parent / "vectors", overwrite=True)
    unable = {
        "a language model": firth.load(run_folder.parent / "vectors"),
        "use a language model": trained("t5-tiny", unigram_folder, *SMALL[:4], "seq_len=32", "batch_size=4"),
        "no masked-token head": trained("electra-tiny", corpus_folder, *SMALL, "embedding_dim=32"),
    }
    for said, model in unable.items():
        with pytest.raises(FirthError, match=said):
            model.score_texts(["A red boat"])
        with pytest.raises(FirthError, match=said):
            model.score("A red boat")
    electra = unable["no masked-token head"]
    assert electra.path is not None
    assert firth.load(electra.path / "generator").score("A red boat") < 0
    bert = firth.load(run_folder)
    with pytest.raises(FirthError, match=r"does not score texts by 'left-to-right': choose masked or masked-word"):
        bert.score_texts(["A red boat"], "left-to-right")
    elmo = trained("elmo-tiny", words_folder, *ELMO)
    assert elmo.path is not None
    (elmo.path / "softmax.safetensors").unlink()
    with pytest.raises(FirthError, match="no softmax"):
        firth.load(elmo.path).score_texts(["A red boat"])
