"""BERT's relatives: training speed beside transformers' classes in a plain loop, and what equal time buys.

    python benchmarks/relatives.py speed [--corpus CORPUS] [--rounds 5] [--length 512]
    python benchmarks/relatives.py train --minutes 30 [--corpus CORPUS] [--recipes bert-tiny electra-tiny ...] [--probe labelled.tsv] [--out RUNS]
        [--encoders positions=rotary norm_first=true] [--settings batch_size=8 learning_rate=1.4e-3] [--steps bert-tiny=38000 ...]
    python benchmarks/relatives.py rate --minutes 30 [--corpus CORPUS] [--encoders ...] [--settings ...]

speed: contenders take turns; figures are medians of useful tokens (not padding) a second. The peers are what
the classes offer: real documents cut to 128 tokens (or --length) and padded to the longest of the batch, scores at every
position for ELECTRA (ElectraForMaskedLM of a quarter of the width, its samples, ElectraForPreTraining, tables
shared, λ 50), DataCollatorForPermutationLanguageModeling and XLNetLMHeadModel for XLNet, T5ForConditionalGeneration on
documents with their spans taken out for T5 (its rows of text are a little longer than its input), GPT2LMHeadModel for GPT; AdamW, no dropout.
train: each recipe gets the same wall-clock time on the same corpus, one after the other; then its held-out
objective (by ``firth evaluate``; losses of different objectives cannot be compared) and, with --probe, the accuracy of
a logistic regression on its frozen mean vectors (lines ``label<TAB>text``; three random halves to train on). --encoders
sets what all those share that are BERT's encoder (BERT, ELECTRA, ERNIE, UniLM), --settings what all share. Runs in --out are kept, and those that
are there and finished are only tested; ``finetune.py --bases bert=RUNS/bert-tiny ... --alone`` tunes them on tasks.
rate: how many steps of each recipe fit into these minutes on the threads there are, recipes in turn, medians of a few seconds
each. Handed to ``train --steps`` they make the same runs on a machine that has less time or other work (one thread each, say):
what is trained depends on the number of steps alone.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from transformers import (
    BertTokenizerFast,
    DataCollatorForPermutationLanguageModeling,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    XLNetConfig,
    XLNetLMHeadModel,
)

import firth
from firth.cli.quickstart import write_sample
from firth.core.config import parse_settings
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.pretraining import find_pretraining
from firth.models.t5.objective import choose_spans, corrupt, pieces_of, text_len
from firth.tokenizers.pieces import sentinel_ids
from firth.training.optimizer import build_optimizer

ROWS = 32  # of 128 tokens; longer rows are fewer
RECIPES = ["bert-tiny", "electra-tiny", "xlnet-tiny", "ernie-tiny", "unilm-tiny", "gpt-tiny", "t5-tiny"]
_TIMED = 20  # steps of a recipe in a round of `rate`
Step = Callable[[], int]  # one step; how many useful tokens it took


def documents(corpus: Corpus, length: int) -> list[np.ndarray]:
    """Documents as a peer sees them: cut to the length, with [CLS] and [SEP]."""
    tokens, starts = corpus.train.tokens, corpus.train.document_starts
    order = np.random.default_rng(0).permutation(len(starts) - 1)[: 40 * ROWS]
    pieces = corpus.pieces
    return [
        np.concatenate(
            ([pieces.cls_id], np.asarray(tokens[starts[number] : starts[number + 1]][: length - 2]), [pieces.sep_id])
        ).astype(np.int64)
        for number in order.tolist()
    ]


def padded(rows: list[np.ndarray], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    longest += longest % 2  # the collator for permutations wants even lengths
    ids = np.full((len(rows), longest), pad_id, np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    mask = np.arange(longest) < np.asarray([len(row) for row in rows])[:, None]
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


def taking_turns(rows: list[np.ndarray], count: int, step: Callable[[list[np.ndarray]], int]) -> Step:
    place = 0

    def run() -> int:
        nonlocal place
        chosen = [rows[(place + row) % len(rows)] for row in range(count)]
        place += count
        return step(chosen)

    return run


def finish(loss: torch.Tensor, parameters: list[torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def electra_peer(config: RunConfig, corpus: Corpus) -> Step:
    model, share = config.model, config.objective.generator_ratio
    common = {
        "vocab_size": corpus.info.vocab_size,
        "embedding_size": model.token_dim,
        "num_hidden_layers": model.num_layers,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    discriminator = ElectraForPreTraining(
        ElectraConfig(
            hidden_size=model.hidden_dim, num_attention_heads=model.num_heads, intermediate_size=model.ffn_dim, **common
        )
    ).train()
    heads = max(1, round(model.num_heads * share))
    width = int(model.hidden_dim * share)
    generator = ElectraForMaskedLM(
        ElectraConfig(
            hidden_size=width, num_attention_heads=heads, intermediate_size=int(model.ffn_dim * share), **common
        )
    ).train()
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight
    parameters = list({id(p): p for p in [*generator.parameters(), *discriminator.parameters()]}.values())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    pieces = corpus.pieces

    def step(rows: list[np.ndarray]) -> int:
        ids, mask = padded(rows, pieces.pad_id)
        chosen = (torch.rand(ids.shape) < 0.15) & (ids >= 5)
        seen = torch.where(chosen & (torch.rand(ids.shape) < 0.85), pieces.mask_id, ids)
        labels = torch.where(chosen, ids, -100)
        out = generator(input_ids=seen, attention_mask=mask, labels=labels)
        with torch.no_grad():
            guesses = torch.multinomial(out.logits[chosen].softmax(-1), 1)[:, 0]
        replaced = ids.clone()
        replaced[chosen] = guesses
        wanted = (replaced != ids).long()
        second = discriminator(input_ids=replaced, attention_mask=mask, labels=wanted)
        finish(out.loss + 50 * second.loss, parameters, optimizer)
        return int(mask.sum())

    return taking_turns(documents(corpus, config.objective.seq_len), config.training.batch_size, step)


def xlnet_peer(config: RunConfig, corpus: Corpus) -> Step:
    model = XLNetLMHeadModel(
        XLNetConfig(
            vocab_size=corpus.info.vocab_size,
            d_model=config.model.hidden_dim,
            n_layer=config.model.num_layers,
            n_head=config.model.num_heads,
            d_inner=config.model.ffn_dim,
            dropout=0.0,
            mem_len=0,
        )
    ).train()
    tokenizer = BertTokenizerFast.from_pretrained(corpus.folder / "tokenizer")
    collator = DataCollatorForPermutationLanguageModeling(tokenizer)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step(rows: list[np.ndarray]) -> int:
        ids, mask = padded(rows, corpus.pieces.pad_id)
        batch = collator(list(ids))
        # scores of every position, as the class gives them; the loss at the targets
        logits = model(**{name: batch[name] for name in ("input_ids", "perm_mask", "target_mapping")}).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        finish(loss, parameters, optimizer)
        return int(mask.sum())

    return taking_turns(documents(corpus, config.objective.seq_len), config.training.batch_size, step)


def gpt_peer(config: RunConfig, corpus: Corpus) -> Step:
    shape = config.model
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=corpus.info.vocab_size,
            n_embd=shape.hidden_dim,
            n_layer=shape.num_layers,
            n_head=shape.num_heads,
            n_inner=shape.ffn_dim,
            n_positions=shape.max_positions,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    ).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step(rows: list[np.ndarray]) -> int:
        ids, mask = padded(rows, corpus.pieces.pad_id)
        labels = ids.masked_fill(mask == 0, -100)
        finish(model(input_ids=ids, attention_mask=mask, labels=labels).loss, parameters, optimizer)
        return int(mask.sum())

    return taking_turns(documents(corpus, config.objective.seq_len), config.training.batch_size, step)


def t5_peer(config: RunConfig, corpus: Corpus) -> Step:
    objective, shape = config.objective, config.model
    pieces = pieces_of(corpus, objective)
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=shape.vocab_size,
            d_model=shape.hidden_dim,
            d_kv=shape.hidden_dim // shape.num_heads,
            d_ff=shape.ffn_dim,
            num_layers=shape.num_layers,
            num_decoder_layers=shape.num_decoder_layers,
            num_heads=shape.num_heads,
            dropout_rate=0.0,
            pad_token_id=pieces.pad_id,
            eos_token_id=pieces.eos_id,
            decoder_start_token_id=pieces.pad_id,
        )
    ).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    sentinels = np.asarray(sentinel_ids(pieces))
    most, number = text_len(objective), 0

    def step(rows: list[np.ndarray]) -> int:
        nonlocal number
        inputs, targets = [], []
        for row in rows:
            taken = choose_spans(len(row), objective, 0, np.asarray([number]))
            number += 1
            source, target = corrupt(row[None], taken, sentinels, pieces.eos_id)
            inputs.append(source[0])
            targets.append(target[0])
        ids, mask = padded(inputs, pieces.pad_id)
        labels, real = padded(targets, pieces.pad_id)
        out = model(input_ids=ids, attention_mask=mask, labels=labels.masked_fill(real == 0, -100))
        finish(out.loss, parameters, optimizer)
        return sum(map(len, rows))

    texts = [row[1:-1] for row in documents(corpus, most + 2)]
    return taking_turns(texts, config.training.batch_size, step)


def firth_step(config: RunConfig, corpus: Corpus) -> Step:
    """One step of Firth's loop."""
    family = find_pretraining(config)(configure(config, corpus), corpus)
    family.module.train()
    optimizer = build_optimizer(family.module, config.training)
    parameters = list(family.module.parameters())
    number = 0

    def step() -> int:
        nonlocal number
        batch = family.batch(number).to("cpu")
        number += 1
        sums = family.loss(batch).sums
        loss = sum(family.weights[name] * value / max(batch.counts[name], 1) for name, value in sums.items())
        assert isinstance(loss, torch.Tensor)
        finish(loss, parameters, optimizer)
        return batch.num_tokens

    return step


def speed(arguments: argparse.Namespace, corpus: Corpus) -> None:
    length, rows = arguments.length, ROWS * 128 // arguments.length
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, rows {rows} x {length}")
    peers = {"electra-mini": electra_peer, "xlnet-mini": xlnet_peer, "t5-mini": t5_peer, "gpt-mini": gpt_peer}
    for name, peer in peers.items():
        if arguments.only and not name.startswith(arguments.only):
            continue
        config = find_run_recipe(name).override([f"batch_size={rows}", f"seq_len={length}"])
        config = configure(config, corpus)
        contenders = {"transformers": peer(config, corpus), "firth": firth_step(config, corpus)}
        if name.startswith("xlnet"):  # the peer has no memory
            contenders["firth, no memory"] = firth_step(config.override(["memory_len=0"]), corpus)
        found: dict[str, list[float]] = {contender: [] for contender in contenders}
        for number in range(arguments.rounds + 1):
            for contender, step in contenders.items():
                started = time.perf_counter()
                tokens = sum(step() for _ in range(arguments.steps if number else 1))
                if number:
                    found[contender].append(tokens / (time.perf_counter() - started))
        base = statistics.median(found["transformers"])
        print(f"\n{name}")
        for contender, speeds in found.items():
            middle = statistics.median(speeds)
            print(
                f"  {contender:<18} {middle:>8,.0f} tokens/s   {min(speeds):>7,.0f} - {max(speeds):<7,.0f} {middle / base:5.2f}x"
            )


def probe(run: Path, path: Path) -> float:
    """Mean accuracy of a linear model on frozen vectors, over three random halves."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if "\t" in line]
    labels = np.asarray([label for label, _ in lines])
    vectors = firth.load(run).encode([text for _, text in lines])
    scores = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(lines))
        train, test = np.array_split(order, 2)
        scaler = StandardScaler().fit(vectors[train])
        model = LogisticRegression(max_iter=2000).fit(scaler.transform(vectors[train]), labels[train])
        scores.append(float(model.score(scaler.transform(vectors[test]), labels[test])))
    return float(np.mean(scores))


def settings_of(name: str, arguments: argparse.Namespace) -> list[str]:
    """What this recipe is changed by on the command line."""
    encoder = isinstance(find_run_recipe(name).model, EncoderConfig)
    return [*arguments.settings, *(arguments.encoders if encoder else [])]


def rate(arguments: argparse.Namespace, corpus: Corpus) -> None:
    """As many steps as fit, from the time that steps take on a quiet machine."""
    print(f"{arguments.minutes} minutes on {torch.get_num_threads()} threads")
    steps = {}
    for name in arguments.recipes:
        config = configure(find_run_recipe(name).override(settings_of(name, arguments)), corpus)
        steps[name] = firth_step(config, corpus)
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(arguments.rounds):
        for name, step in steps.items():
            step()
            for _ in range(_TIMED):
                started = time.perf_counter()
                step()
                found[name].append(time.perf_counter() - started)
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"  {name}={60 * arguments.minutes / middle:.0f}   {1000 * middle:.1f} ms a step")


def train(arguments: argparse.Namespace, corpus: Corpus, folder: Path) -> None:
    given = dict(pair.split("=") for pair in arguments.steps)
    print(f"{arguments.minutes} minutes each, {torch.get_num_threads()} threads, {corpus.info.train.tokens:,} tokens")
    for name in arguments.recipes:
        out = (arguments.out or folder) / name
        if not (out / "firth.json").is_file() or Run.open(out).record.status != "finished":
            length = {"steps": int(given[name])} if name in given else {"budget": f"{arguments.minutes}m"}
            settings = settings_of(name, arguments)
            firth.pretrain(
                name, corpus=corpus.folder, out=out, settings=parse_settings(settings), overwrite=True, **length
            )
        record = Run.open(out).record
        scores = {key: value for key, value in firth.evaluate(out).items() if isinstance(value, float)}
        shown = "  ".join(f"{key} {value:.4f}" for key, value in scores.items())
        print(f"\n{name}: {record.steps} steps, {record.tokens:,} tokens, {record.seconds / 60:.1f} min")
        print(f"  held out: {shown}")
        if arguments.probe:
            print(f"  probe: accuracy {probe(out, arguments.probe):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed")
    fast.add_argument("--rounds", type=int, default=5)
    fast.add_argument("--only", help="a recipe's first letters")
    fast.add_argument("--length", type=int, default=128, help="at which documents are cut; 4,096 tokens are a batch")
    fast.add_argument("--steps", type=int, default=3, help="steps of a contender in a round")
    long = commands.add_parser("train")
    long.add_argument("--out", type=Path, help="keep the runs here")
    long.add_argument("--steps", nargs="*", default=[], metavar="RECIPE=N", help="in place of the minutes")
    long.add_argument("--probe", type=Path, help="label<TAB>text lines")
    timed = commands.add_parser("rate")
    timed.add_argument("--rounds", type=int, default=5)
    for command in (long, timed):
        command.add_argument("--minutes", type=float, default=30)
        command.add_argument("--recipes", nargs="+", default=RECIPES)
        command.add_argument(
            "--encoders", nargs="*", default=[], metavar="SETTING", help="of the recipes that are BERT's encoder"
        )
        command.add_argument("--settings", nargs="*", default=[], metavar="SETTING", help="of all recipes")
    for command in (fast, long, timed):
        command.add_argument("--corpus", type=Path, help="of wordpiece; by default the English sample is prepared")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = arguments.corpus
        if path is None:
            path = folder / "corpus"
            write_sample("en", folder / "text.txt")
            firth.prepare(folder / "text.txt", path, layout="line")
        corpus = Corpus.open(path, verify=False)
        if arguments.command == "speed":
            speed(arguments, corpus)
        elif arguments.command == "rate":
            rate(arguments, corpus)
        else:
            train(arguments, corpus, folder)


if __name__ == "__main__":
    main()
