"""Honest models, vectors and texts, small, from which hostile ones are made."""

import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np

import firth
from firth.core.config import parse_settings
from firth.vectors.formats import load_vectors, save_vectors

sys.path.insert(0, str(Path(__file__).parents[1]))
from image_samples import make_folder
from pair_text import sentence_pairs, write_sides
from sample_text import write_documents

LOOP = "batch_size=4 evaluation_batches=1 evaluations=1 checkpoints=1 steps=1".split()
ENCODER = "num_layers=2 hidden_dim=16 num_heads=2 ffn_dim=32 max_positions=48 seq_len=32".split()
TRANSLATOR = "num_layers=1 num_decoder_layers=1 hidden_dim=16 num_heads=2 ffn_dim=32".split()
MODELS: dict[str, tuple[str, str, list[str]]] = {  # name: recipe, corpus, settings
    "bert": ("bert-tiny", "pieces", ENCODER),
    "electra": ("electra-tiny", "pieces", ENCODER),
    "modernbert": ("modernbert-1m", "pieces", ENCODER),
    "gpt": ("gpt-tiny", "bpe", ENCODER),
    "t5": ("t5-tiny", "pieces", [*TRANSLATOR, "seq_len=32"]),
    "marian": ("transformer-tiny", "pairs", [*TRANSLATOR, "batch_tokens=128", "average=1"]),
    "seq2seq": ("seq2seq", "pairs", ["hidden_dim=16", "batch_tokens=128"]),
    "elmo": (
        "elmo-tiny",
        "words",
        "filters=[[1,4],[3,8]] projection_dim=8 cell_dim=16 seq_len=12 num_samples=32".split(),
    ),
    "recurrent": ("lstm-lm", "pieces", "num_layers=2 hidden_dim=16 embedding_dim=12 seq_len=8".split()),
    "xlnet": (
        "xlnet-mini",
        "unigram",
        "num_layers=2 hidden_dim=16 num_heads=2 ffn_dim=32 seq_len=32 memory_len=8".split(),
    ),
}
ASK: dict[str, list[str]] = {  # what each is asked
    "bert": ["fill", "model", "The [MASK] sold an apple."],
    "electra": ["encode", "model", "texts.txt"],
    "modernbert": ["fill", "model", "The [MASK] sold an apple."],
    "gpt": ["generate", "model", "The old doctor", "--max-tokens", "4"],
    "t5": ["encode", "model", "texts.txt"],
    "marian": ["translate", "model", "dog cat"],
    "seq2seq": ["translate", "model", "dog cat"],
    "elmo": ["encode", "model", "texts.txt"],
    "recurrent": ["encode", "model", "texts.txt"],
    "xlnet": ["encode", "model", "texts.txt"],
    "task": ["predict", "model", "texts.txt"],
    "vectors": ["nearest", "model", "the"],
    "vit": ["encode", "model", "model/one.png"],
    "swin": ["encode", "model", "model/one.png"],
    "onnx": ["encode", "model", "texts.txt"],
    "static": ["encode", "model", "texts.txt"],
    "index": ["search", "model", "old doctor"],
    "corpus": ["pretrain", "bert-tiny", "--corpus", "model", "--out", "run", *ENCODER, *LOOP],
}
ONLY_RUNS = ("task", "vectors", "onnx", "index", "corpus")  # which are nothing without their record


def build(folder: Path) -> None:
    """Some seconds; done once, ``ready`` says so."""
    if (folder / "ready").is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = write_documents(folder / "news.txt", 120)
    (folder / "texts.txt").write_text("The old doctor found a broken clock.\n老师看见了一本书。\n", encoding="utf-8")
    for name, kind in (("pieces", "wordpiece"), ("bpe", "bpe"), ("unigram", "unigram"), ("words", "words")):
        more = {} if kind == "words" else {"vocab_size": 400}
        firth.prepare(text, folder / "corpora" / name, tokens=kind, layout="line", heldout=0.1, workers=1, **more)
    sides = write_sides(folder, sentence_pairs(120))
    firth.prepare_pairs(sides, folder / "corpora" / "pairs", vocab_size=300, heldout=0.1)
    for name, (recipe, corpus, settings) in MODELS.items():
        firth.pretrain(
            recipe,
            corpus=folder / "corpora" / corpus,
            out=folder / "runs" / name,
            settings=parse_settings([*settings, *LOOP]),
        )
        shutil.rmtree(folder / "runs" / name / "checkpoints")
    _vectors(folder)
    _task(folder)
    _others(folder)
    (folder / "ready").write_text("")


def _vectors(folder: Path) -> None:
    out = folder / "vectors"
    out.mkdir()
    run = folder / "runs" / "vectors"
    settings = parse_settings("dim=8 min_count=1 epochs=1".split())
    firth.pretrain("fasttext", corpus=folder / "corpora" / "words", out=run, settings={**settings, "bucket": 50})
    shutil.copy(run / "model.bin", out / "fasttext.bin")
    vectors = load_vectors(run / "model.bin")
    for name in ("word2vec.bin", "text.vec", "projector.tsv", "plain.safetensors"):
        save_vectors(vectors, out / name)
    save_vectors(vectors, out / "glove.txt", "glove")


def _task(folder: Path) -> None:
    pick = random.Random(1)
    rows = [
        f"{'good' if side else 'bad'} {pick.choice(['film', 'book', 'song'])} {number}\t{'yes' if side else 'no'}"
        for number, side in ((number, number % 2) for number in range(40))
    ]
    (folder / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    firth.finetune(
        "classify", train=folder / "labels.tsv", base=folder / "runs" / "bert", out=folder / "runs" / "task", epochs=1
    )


def _others(folder: Path) -> None:
    """A model of images, exports, a search index, a corpus."""
    runs = folder / "runs"
    firth.prepare_images(make_folder(folder / "images", 16), folder / "corpora" / "images", image_size=16, heldout=0.2)
    small = parse_settings("hidden_dim=16 num_layers=1 num_heads=2 ffn_dim=32".split() + LOOP)
    windows = parse_settings("embedding_dim=8 depths=[1,1] num_heads=[1,2] window_size=4 patch_size=2".split() + LOOP)
    for name, recipe, settings in (("vit", "vit-tiny-masked", small), ("swin", "swin-tiny", windows)):
        firth.pretrain(recipe, corpus=folder / "corpora" / "images", out=runs / name, settings=settings)
        shutil.rmtree(runs / name / "checkpoints")
        shutil.copy(next((folder / "images").rglob("*.png")), runs / name / "one.png")
    firth.export(runs / "bert", runs / "onnx", to="onnx")
    firth.export(runs / "bert", runs / "static", to="static", dim=8)
    firth.index(folder / "news.txt", runs / "index", model=folder / "vectors" / "text.vec")
    shutil.copytree(folder / "corpora" / "pieces", runs / "corpus")


def header_of(path: Path) -> tuple[dict[str, object], bytes]:
    """Header and data of a safetensors file."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def with_header(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def numbers(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).tobytes()
