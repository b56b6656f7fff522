"""What a time budget buys: held-out masked-token loss of Firth's recipe and of transformers' run_mlm loop.

    python benchmarks/budget.py --minutes 10 30 [--corpus CORPUS] [--recipe bert-mini] [--settings pairs=none]

Both train on the same corpus and vocabulary for the same wall-clock time, one after
the other; the loss of both is then measured by the same function on the same held-out rows with the
same masks. The peer: BertForMaskedLM in the shape of --peer-recipe, rows of 128 cut from the joined text, batch 8, AdamW at 5e-5 with
linear decay, dropout 0.1, no weight decay: the defaults of run_mlm (--peer-rate, --peer-batch change them). --only runs
one of the two, so that each may have a core of its own at the same time.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

import firth
from firth.cli.quickstart import write_sample
from firth.core.config import parse_settings
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.models.bert.config import MaskedTokensConfig
from firth.models.pretrain import configure
from firth.models.shared.pretraining import find_pretraining

LENGTH = 128


def heldout(config: RunConfig, corpus: Corpus, folder: Path) -> dict[str, float]:
    """The masked loss of a model directory: the same rows and masks (15 %) whatever it was trained with."""
    objective = MaskedTokensConfig(seq_len=LENGTH).model_dump()
    training = config.training.replace(evaluation_batches=64).model_dump()
    trainable = find_pretraining(config)(config.replace(objective=objective, training=training), corpus)
    trainable.start_from(folder)
    return trainable.evaluate()


def train_peer(config: RunConfig, corpus: Corpus, seconds: float, rate: float, rows: int, out: Path) -> int:
    """run_mlm's loop until the time is over; returns the tokens it saw."""
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=corpus.info.vocab_size,
            hidden_size=config.model.hidden_dim,
            num_hidden_layers=config.model.num_layers,
            num_attention_heads=config.model.num_heads,
            intermediate_size=config.model.ffn_dim,
        )
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    pieces, tokens = corpus.pieces, corpus.train.tokens
    generator = np.random.default_rng(0)
    order = generator.permutation(len(tokens) // (LENGTH - 2))
    started = time.perf_counter()
    place = 0
    while (share := (time.perf_counter() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - share)
        chosen = [int(order[(place + row) % len(order)]) * (LENGTH - 2) for row in range(rows)]
        place += rows
        ids = np.stack(
            [np.concatenate(([pieces.cls_id], tokens[at : at + LENGTH - 2], [pieces.sep_id])) for at in chosen]
        ).astype(np.int64)
        labels = np.where((generator.random(ids.shape) < 0.15) & ~np.isin(ids, pieces.special_ids), ids, -100)
        kind = generator.random(ids.shape)
        ids = np.where((labels >= 0) & (kind < 0.8), pieces.mask_id, ids)
        ids = np.where((labels >= 0) & (kind >= 0.9), generator.integers(5, corpus.info.vocab_size, ids.shape), ids)
        model(input_ids=torch.from_numpy(ids), labels=torch.from_numpy(labels)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(out)
    return place * LENGTH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs="+", default=[10, 30])
    parser.add_argument("--corpus", type=Path, help="a corpus of wordpiece; by default the English sample is prepared")
    parser.add_argument("--recipe", default="bert-mini")
    parser.add_argument("--settings", nargs="*", default=[])
    parser.add_argument("--only", choices=("firth", "transformers"))
    parser.add_argument("--peer-recipe", default="bert-mini")
    parser.add_argument("--peer-rate", type=float, default=5e-5)
    parser.add_argument("--peer-batch", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = arguments.corpus
        if path is None:
            path = folder / "corpus"
            write_sample("en", folder / "text.txt")
            firth.prepare(folder / "text.txt", path, layout="line")
        corpus = Corpus.open(path)
        plain = configure(find_run_recipe(arguments.peer_recipe), corpus)
        print(f"{'minutes':>7}  {'':<36} {'loss':>7} {'accuracy':>8} {'tokens':>12}")
        for minutes in arguments.minutes:
            rows: list[tuple[str, RunConfig, Path, int]] = []
            if arguments.only != "transformers":
                out = folder / f"firth-{minutes:g}"
                firth.pretrain(
                    arguments.recipe,
                    corpus=path,
                    out=out,
                    budget=f"{minutes * 60:.0f}s",
                    settings=parse_settings(arguments.settings),
                )
                record = Run.open(out).record
                title = f"firth {arguments.recipe} {' '.join(arguments.settings)}"
                rows.append((title, RunConfig.build(record.config, out), out, record.tokens))
            if arguments.only != "firth":
                peer = folder / f"peer-{minutes:g}"
                seen = train_peer(plain, corpus, minutes * 60, arguments.peer_rate, arguments.peer_batch, peer)
                rows.append((f"transformers, {arguments.peer_rate:g}, batch {arguments.peer_batch}", plain, peer, seen))
            for title, shape, where, tokens in rows:
                found = heldout(shape, corpus, where)
                print(
                    f"{minutes:>7g}  {title:<36} {found['loss']:7.4f} {found['masked_accuracy']:8.1%} {tokens:12,}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
