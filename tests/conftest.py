"""What many tests share: one small corpus, one small config, one small trained run."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest
import torch

import firth
from firth.core.registry import RunConfig, find_run_recipe
from firth.corpus.format import Corpus
from pair_text import sentence_pairs, write_sides
from sample_text import write_documents

# The same generated cases every time: a change is judged by what it changed. FIRTH_EXPLORE=1 tries new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None)
if not os.environ.get("FIRTH_EXPLORE"):
    hypothesis.settings.load_profile("repeatable")

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a job in the background; tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start

TINY = [
    "num_layers=2",
    "hidden_dim=32",
    "num_heads=2",
    "ffn_dim=64",
    "max_positions=48",
    "seq_len=32",
    "batch_size=4",
    "evaluation_batches=2",
    "evaluations=2",
    "checkpoints=2",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="unit tests that are not slow, one contract per model")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``--fast`` keeps quick unit tests, the import graph, and the tests marked ``each_model``."""
    if not config.getoption("--fast"):
        return
    unit = Path(__file__).parent / "unit"

    def is_fast(item: pytest.Item) -> bool:
        if item.get_closest_marker("each_model"):
            return True
        quick = item.path.is_relative_to(unit) or item.path.name == "test_import_graph.py"
        return quick and item.get_closest_marker("slow") is None

    config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
    items[:] = [item for item in items if is_fast(item)]


@pytest.fixture(scope="session")
def tiny_settings() -> list[str]:
    """Settings that make any BERT recipe small."""
    return list(TINY)


@pytest.fixture(scope="session")
def tiny_config() -> RunConfig:
    return find_run_recipe("bert-tiny").override([*TINY, "steps=6"])


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 documents, one a line."""
    return write_documents(tmp_path_factory.mktemp("text") / "news.txt")


@pytest.fixture(scope="session")
def corpus_folder(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora") / "news"
    firth.prepare(text_file, folder, vocab_size=400, layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="session")
def words_folder(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text as words."""
    folder = tmp_path_factory.mktemp("corpora") / "words"
    firth.prepare(text_file, folder, tokens="words", layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="session")
def pairs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 sentence pairs of a toy language, some held out."""
    folder = tmp_path_factory.mktemp("pairs")
    sides = write_sides(folder, sentence_pairs(200))
    firth.prepare_pairs(sides, folder / "corpus", vocab_size=300, heldout=0.1)
    return folder / "corpus"


@pytest.fixture(scope="session")
def wordpiece_pairs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pairs for models that mask."""
    folder = tmp_path_factory.mktemp("wordpiece_pairs")
    sides = write_sides(folder, sentence_pairs(200))
    firth.prepare_pairs(sides, folder / "corpus", tokens="wordpiece", vocab_size=300, heldout=0.1)
    return folder / "corpus"


@pytest.fixture(scope="session")
def corpus(corpus_folder: Path) -> Corpus:
    return Corpus.open(corpus_folder)


@pytest.fixture(scope="session")
def run_folder(tiny_config: RunConfig, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of six steps; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "bert"
    firth.pretrain(tiny_config, corpus=corpus_folder, out=folder)
    return folder


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def bpe_folder(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text in byte-level pieces."""
    folder = tmp_path_factory.mktemp("corpora") / "bpe"
    firth.prepare(text_file, folder, tokens="bpe", vocab_size=400, layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="session")
def characters_folder(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text, a token a character."""
    folder = tmp_path_factory.mktemp("corpora") / "characters"
    firth.prepare(text_file, folder, tokens="characters", layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="session")
def unigram_folder(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same text in pieces by their likelihood."""
    folder = tmp_path_factory.mktemp("corpora") / "unigram"
    firth.prepare(text_file, folder, tokens="unigram", vocab_size=400, layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="session")
def gpt_folder(bpe_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a small GPT; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "gpt"
    config = find_run_recipe("gpt-tiny").override([*TINY, "steps=30", "learning_rate=0.01"])
    firth.pretrain(config, corpus=bpe_folder, out=folder)
    return folder
