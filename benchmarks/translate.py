"""Translation: training and beam search against a plain nn.Transformer loop and transformers; BLEU by wall-clock.

    python benchmarks/translate.py [--corpus PAIRS] [--rounds 5]
    python benchmarks/translate.py --multi30k DIR --recipe transformer-tiny --budget 2h [--out RUN keep=20]
    python benchmarks/translate.py --tsv FILE --target zh --recipe transformer-tiny --budget 30m

The first form measures speed on one model size and one set of pairs (toy pairs of real lengths by
default, or a corpus of ``firth prepare-pairs``). Contenders take turns; figures are medians of
target tokens a second that are not padding. The plain loops take pairs in random order, padded to
the longest of the batch, as tutorials do; the same loop on batches by length is shown too, so
that what the batches give can be told from what the model gives. Beam search (5) runs the same weights in
Firth, transformers' ``generate`` and CTranslate2 (float32 and int8): once over sentences as they end, and once over 1 and
32 sentences that all get 30 tokens, so that every program does as many steps. The other
forms train, on Multi30k files (``train.en.gz``, ``train.de.gz``, ``val.*``, ``test_2016_flickr.*``) or on a TSV file of pairs (a thousand
sentences are set aside for each test, with all their translations), and print BLEU for all, short and long sentences, and of
the checkpoints that are kept (greedily, by seconds of training). A run that is there already is only scored.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from transformers import MarianConfig, MarianMTModel

import firth
from firth.core.config import parse_settings
from firth.core.registry import TrainingConfig
from firth.core.run import Run
from firth.core.types import Batch
from firth.corpus.pairs import PairsCorpus
from firth.data.parallel import Pair, PairsReadingConfig, find_pair_sources, read_pairs
from firth.decoding.steps import Rules
from firth.exporters.ctranslate2 import CTranslate2Model, load_ctranslate2
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.translation import PairSpecials, Translation
from firth.models.shared.translation_model import TranslationModel, Translator, score_translations
from firth.nn.attention import sinusoids
from firth.training.optimizer import build_optimizer

DIM, LAYERS, HEADS, FFN = 256, 3, 4, 1024
TOKENS = 4096
SMOOTHING = 0.1
STEPS = 30  # tokens that every sentence gets where programs are compared step by step
LONG = 16  # words of a long sentence
Step = Callable[[], int]  # one step; how many target tokens it took


def toy_pairs(folder: Path, count: int = 20_000) -> list[str]:
    """Sentences of real lengths (about 12 words, some 40) in a language that is learned in minutes."""
    pick = random.Random(1)
    words = [f"{first}{second}{third}" for first in "bdfgklmn" for second in "aeiou" for third in "lmnrst"]
    paths = [folder / "toy.en", folder / "toy.de"]
    with open(paths[0], "w") as source, open(paths[1], "w") as target:
        for _ in range(count):
            chosen = pick.choices(words, k=min(40, max(3, round(pick.lognormvariate(2.45, 0.4)))))
            source.write(" ".join(chosen) + "\n")
            target.write(" ".join(word[::-1] for word in chosen[::-1]) + "\n")
    return [str(path) for path in paths]


class Plain(nn.Module):
    """What a tutorial builds from nn.Transformer."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, DIM)
        self.register_buffer("places", sinusoids(512, DIM))
        self.transformer = nn.Transformer(DIM, HEADS, LAYERS, LAYERS, FFN, 0.1, batch_first=True)
        self.out = nn.Linear(DIM, vocab_size)
        self.out.weight = self.table.weight

    def forward(self, source: torch.Tensor, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        embedded = [self.table(ids) * DIM**0.5 + self.places[: ids.shape[1]] for ids in (source, target)]
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            *embedded,
            tgt_mask=causal,
            src_key_padding_mask=~tokens,
            memory_key_padding_mask=~tokens,
            tgt_is_causal=True,
        )
        return self.out(hidden)


def marian(vocab_size: int, pad: int, eos: int) -> MarianMTModel:
    return MarianMTModel(
        MarianConfig(
            vocab_size=vocab_size,
            d_model=DIM,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=FFN,
            decoder_ffn_dim=FFN,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=pad,
            eos_token_id=eos,
            decoder_start_token_id=pad,
            forced_eos_token_id=None,
            max_position_embeddings=512,
        )
    )


class RandomRows:
    """Pairs in random order, as many a batch as make about as many tokens."""

    def __init__(self, corpus: PairsCorpus) -> None:
        lens = corpus.train.lens("target") + 1
        self.size = max(1, round(TOKENS / float(lens.mean())))
        self.order = np.random.default_rng(0).permutation(len(lens))

    def pairs(self, number: int) -> np.ndarray:
        return np.take(self.order, np.arange(number * self.size, (number + 1) * self.size), mode="wrap")


def loop(forward: Callable[[Batch], torch.Tensor], module: nn.Module, batch: Callable[[], Batch]) -> Step:
    """One step of training: loss, gradients, clipping, update."""
    optimizer = build_optimizer(module, TrainingConfig())
    module.train()

    def step() -> int:
        made = batch().to("cpu")
        (forward(made) / made.counts["target"]).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return made.counts["target"]

    return step


def padded_loss(model: Callable[..., torch.Tensor]) -> Callable[[Batch], torch.Tensor]:
    """Scores at every place, padding ignored by its label."""

    def forward(batch: Batch) -> torch.Tensor:
        tensors = batch.tensors
        labels = torch.full_like(tensors["target"], -100)
        labels.view(-1)[tensors["places"]] = tensors["labels"]
        scores = model(tensors["source"], tensors["source_tokens"], tensors["target"])
        return functional.cross_entropy(
            scores.flatten(0, 1), labels.flatten(), reduction="sum", label_smoothing=SMOOTHING
        )

    return forward


def contenders(corpus: PairsCorpus) -> dict[str, Step]:
    pieces = corpus.pieces
    assert pieces.pad_id is not None
    assert pieces.eos_id is not None
    config = EncoderDecoderConfig(
        vocab_size=pieces.vocab_size,
        hidden_dim=DIM,
        num_layers=LAYERS,
        num_decoder_layers=LAYERS,
        num_heads=HEADS,
        ffn_dim=FFN,
    )
    specials = PairSpecials(pieces.pad_id, pieces.eos_id, pieces.pad_id, pieces.eos_id)
    objective = Translation(TranslationConfig(batch_tokens=TOKENS, label_smoothing=SMOOTHING), specials)
    by_len, at_random = objective.rows(corpus.train, 0), RandomRows(corpus)

    def batches(rows: object) -> Callable[[], Batch]:
        number = iter(range(1 << 30))
        return lambda: objective.batch(corpus.train, rows, 0, next(number), 1)  # type: ignore[arg-type]

    ours = EncoderDecoder(config)
    ours.initialize(torch.Generator().manual_seed(0))
    plain, other = Plain(pieces.vocab_size), marian(pieces.vocab_size, pieces.pad_id, pieces.eos_id)

    def theirs(source: torch.Tensor, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return other(input_ids=source, attention_mask=tokens.long(), decoder_input_ids=target).logits

    return {
        "nn.Transformer": loop(padded_loss(plain), plain, batches(at_random)),
        "transformers": loop(padded_loss(theirs), other, batches(at_random)),
        "nn.Transformer, by length": loop(padded_loss(plain), plain, batches(by_len)),
        "transformers, by length": loop(padded_loss(theirs), other, batches(by_len)),
        "firth": loop(lambda batch: objective.loss(ours, batch).sums["target"], ours, batches(by_len)),
    }


def show(title: str, unit: str, speeds: dict[str, list[float]], base: str) -> None:
    print(f"\n{title}")
    best = statistics.median(speeds[base])
    for name, found in speeds.items():
        speed = statistics.median(found)
        print(f"  {name:<26} {speed:>8,.0f} {unit}   {min(found):>7,.0f} - {max(found):<7,.0f} {speed / best:5.2f}x")


def compare_training(corpus: PairsCorpus, rounds: int, steps: int) -> None:
    found = contenders(corpus)
    speeds: dict[str, list[float]] = {name: [] for name in found}
    for number in range(rounds + 1):
        for name, contender in found.items():
            started = time.perf_counter()
            tokens = sum(contender() for _ in range(steps if number else 1))
            if number:
                speeds[name].append(tokens / (time.perf_counter() - started))
    show(f"training, {LAYERS} + {LAYERS} layers of {DIM}", "target tokens/s", speeds, "nn.Transformer")


def compare_search(corpus: PairsCorpus, folder: Path, rounds: int, num_texts: int, budget: str) -> None:
    """A model that was trained for a moment, so that it ends its sentences, in both programs."""
    settings = [f"hidden_dim={DIM}", f"num_layers={LAYERS}", f"num_decoder_layers={LAYERS}", f"ffn_dim={FFN}"]
    settings += ["evaluations=0", "learning_rate=1e-3", "dropout_prob=0.1", "average=1", "norm_first=false"]
    run = folder / "run"
    firth.pretrain("transformer-tiny", corpus=corpus.folder, out=run, budget=budget, settings=parse_settings(settings))
    ours, theirs = TranslationModel.load(run), MarianMTModel.from_pretrained(run).eval()
    texts = corpus.heldout.texts("source")[:num_texts]

    def peer(size: int = 32) -> list[str]:
        """Sorted by length, batches of 32, as careful people run it."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        out = [""] * len(texts)
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            rows = [torch.from_numpy(ours._encode(texts[number]).ids) for number in numbers]
            ids = nn.utils.rnn.pad_sequence(rows, True, theirs.config.pad_token_id)
            tokens = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], True)
            with torch.inference_mode():
                found = theirs.generate(
                    ids, attention_mask=tokens, num_beams=5, max_new_tokens=2 * ids.shape[1] + 16, length_penalty=1.0
                )
            for number, row in zip(numbers, found.tolist(), strict=True):
                out[number] = ours.target_pieces.decode(row)
        return out

    firth.export(run, folder / "ct2", to="ctranslate2")
    firth.export(run, folder / "ct2-int8", to="ctranslate2", int8=True)
    engines = {name: load_ctranslate2(folder / name) for name in ("ct2", "ct2-int8")}
    compare_steps(ours, theirs, engines, texts, rounds)
    runners = {
        "transformers generate": peer,
        "firth": lambda: ours.translate(texts),
        "CTranslate2": lambda: engines["ct2"].translate(texts),
    }
    speeds: dict[str, list[float]] = {name: [] for name in runners}
    results: dict[str, list[str]] = {}
    for number in range(rounds + 1):
        for name, runner in runners.items():
            started = time.perf_counter()
            results[name] = runner()
            if number:
                speeds[name].append(len(texts) / (time.perf_counter() - started))
    show("beam search, width 5", "sentences/s", speeds, "transformers generate")
    for name in ("transformers generate", "CTranslate2"):
        same = sum(one == two for one, two in zip(results["firth"], results[name], strict=True))
        print(f"  {same} of {len(texts)} translations are those of {name} (the ways to end a search differ)")


def compare_steps(
    ours: TranslationModel,
    theirs: MarianMTModel,
    engines: dict[str, CTranslate2Model],
    texts: list[str],
    rounds: int,
) -> None:
    """As many tokens in every program: the end is ruled out until all are written."""
    rules = Rules(min_tokens=STEPS, banned=ours._never_said())
    rows = [ours._encode(text).ids for text in texts]
    usual = statistics.mode(-(-len(row) // 8) for row in rows)  # sentences that Firth searches together
    alike = [number for number, row in enumerate(rows) if -(-len(row) // 8) == usual]

    def generate(numbers: list[int]) -> None:
        chosen = [torch.from_numpy(rows[number]) for number in numbers]
        ids = nn.utils.rnn.pad_sequence(chosen, True, theirs.config.pad_token_id)
        tokens = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in chosen], True)
        with torch.inference_mode():
            theirs.generate(ids, attention_mask=tokens, num_beams=5, min_new_tokens=STEPS, max_new_tokens=STEPS)

    def translate(model: Translator) -> Callable[[list[int]], None]:
        def run(numbers: list[int]) -> None:
            model.translate([texts[number] for number in numbers], max_tokens=STEPS, rules=rules)

        return run

    runners: dict[str, Callable[[list[int]], None]] = {"transformers generate": generate, "firth": translate(ours)}
    runners |= {f"CTranslate2 ({name})": translate(engine) for name, engine in engines.items()}
    for size in (1, 32):
        speeds: dict[str, list[float]] = {name: [] for name in runners}
        for number in range(rounds + 1):
            numbers = [alike[(number * size + place) % len(alike)] for place in range(size)]
            for name, runner in runners.items():
                started = time.perf_counter()
                runner(numbers)
                if number:
                    speeds[name].append(size * STEPS / (time.perf_counter() - started))
        title = f"beam search, width 5, {size} sentence{'s' * (size > 1)} of {STEPS} tokens"
        show(title, "target tokens/s", speeds, "transformers generate")


Parts = dict[str, list[Path]]  # train, dev and test


def multi30k_parts(data: Path, target: str) -> Parts:
    names = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    return {part: [data / f"{name}.{language}.gz" for language in ("en", target)] for part, name in names.items()}


def split_pairs(path: Path, folder: Path, num_apart: int = 1000) -> Parts:
    """All translations of a sentence stand in one part; of those to test, the first counts."""
    known: dict[str, list[str]] = {}
    for pair in read_pairs(find_pair_sources([str(path)]), PairsReadingConfig()):
        known.setdefault(pair.source, []).append(pair.target)
    sources = sorted(known)
    random.Random(0).shuffle(sources)
    cuts = {"test": sources[:num_apart], "dev": sources[num_apart : 2 * num_apart], "train": sources[2 * num_apart :]}
    parts: Parts = {}
    for part, chosen in cuts.items():
        parts[part] = [folder / f"{part}.tsv"]
        lines = [f"{one}\t{other}\n" for one in chosen for other in known[one][: None if part == "train" else 1]]
        parts[part][0].write_text("source\ttarget\n" + "".join(lines), encoding="utf-8")
    return parts


def measure_quality(parts: Parts, folder: Path, arguments: argparse.Namespace) -> None:
    corpus, run = folder / "corpus", arguments.out or folder / "run"
    if not (run / "model.safetensors").exists():
        firth.prepare_pairs(parts["train"], corpus, dev=parts["dev"], vocab_size=arguments.vocab_size)
        firth.pretrain(
            arguments.recipe,
            corpus=corpus,
            out=run,
            budget=arguments.budget,
            settings=parse_settings(arguments.settings),
        )
    model = TranslationModel.load(run)
    record = Run.open(run).record
    pairs = list(read_pairs(find_pair_sources([str(path) for path in parts["test"]]), PairsReadingConfig()))
    started = time.perf_counter()
    found = model.translate([pair.source for pair in pairs])
    translated = time.perf_counter() - started
    print(f"{record.recipe}: {record.seconds / 60:.1f} minutes of training, {record.parameters:,} parameters")
    print(f"  {len(pairs) / translated:.1f} sentences/s with a beam of 5")
    long = [len(pair.source.split()) >= LONG for pair in pairs]
    for title, chosen in (
        ("all", [True] * len(pairs)),
        (f"below {LONG} words", [not one for one in long]),
        (f"{LONG} words and more", long),
    ):
        rows = [(one, pair.target) for one, pair, take in zip(found, pairs, chosen, strict=True) if take]
        if rows:
            scores = score_translations([row[0] for row in rows], [row[1] for row in rows], arguments.target)
            print(f"  {title:<20} {len(rows):>5} sentences   BLEU {scores['bleu']:5.2f}   chrF {scores['chrf']:5.2f}")
    print(f"  {scores['bleu_signature']}")
    for pair, one in list(zip(pairs, found, strict=True))[:3]:
        print(f"  {pair.source}\n    {one}\n    ({pair.target})")
    show_curve(run, model, pairs, arguments.target)


def show_curve(run: Path, model: TranslationModel, pairs: list[Pair], target: str) -> None:
    """BLEU of every checkpoint that is there; changes the model."""
    folders = sorted(run.glob("checkpoints/step-*"), key=lambda folder: int(folder.name.removeprefix("step-")))
    for folder in folders:
        weights = load_file(folder / "model.safetensors")
        model.model.load_state_dict({name.removeprefix("model."): weight for name, weight in weights.items()})
        found = model.translate([pair.source for pair in pairs], beams=1)
        bleu = score_translations(found, [pair.target for pair in pairs], target)["bleu"]
        seconds = json.loads((folder / "state.json").read_text())["seconds"]
        print(f"  after {seconds / 60:6.1f} minutes, {folder.name}, greedy: BLEU {bleu:5.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a corpus of firth prepare-pairs with one vocabulary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="steps of a contender in a round")
    parser.add_argument("--texts", type=int, default=200, help="sentences for beam search")
    parser.add_argument("--moment", default="3m", help="how long the model that is searched with is trained")
    parser.add_argument("--multi30k", type=Path, help="a folder with the files of Multi30k, task 1, raw")
    parser.add_argument("--tsv", type=Path, help="or a file of pairs")
    parser.add_argument("--target", default="de")
    parser.add_argument("--recipe", default="transformer-tiny")
    parser.add_argument("--budget", default="30m")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--out", type=Path, help="keep the run here")
    parser.add_argument("settings", nargs="*", help="settings of the recipe as key=value")
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.multi30k is not None or arguments.tsv is not None:
            data = arguments.multi30k
            parts = multi30k_parts(data, arguments.target) if data else split_pairs(arguments.tsv, folder)
            measure_quality(parts, folder, arguments)
            return
        path = arguments.corpus
        if path is None:
            path = folder / "corpus"
            firth.prepare_pairs(toy_pairs(folder), path, vocab_size=8000)
        corpus = PairsCorpus.open(path, verify=False)
        compare_training(corpus, arguments.rounds, arguments.steps)
        compare_search(corpus, folder, arguments.rounds, arguments.texts, arguments.moment)


if __name__ == "__main__":
    main()
