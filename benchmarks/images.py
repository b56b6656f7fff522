"""Accuracy against minutes on labelled images: ViT and Swin from nothing and after masked patches on the same images, beside a
linear model on pixels and a small CNN; and training images/s beside transformers' classes.

    python benchmarks/images.py TRAIN_FOLDER TEST_FOLDER [--budget 5m] [--masked 2m] [--only vit swin ...] [--work FOLDER]

Folders have a folder per class. A network is trained for the budget on the threads that torch has (OMP_NUM_THREADS). Each result
is a line of JSON, with the accuracy on the test images at several moments. With ``--cpu-time`` and one thread, minutes are those that a core
of its own would take. With ``--work`` runs are kept, those that are finished are
not trained again, and one that was interrupted (Ctrl-C) goes on. ``--set name=value`` changes a setting of ViT and Swin.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import firth
from firth.core.config import parse_duration
from firth.core.registry import find_run_recipe
from firth.corpus.images import AugmentConfig, ImageCorpus, ImageRows, as_shares, augment, normalize

BATCH = 64
POINTS = 4  # of a curve
PRECISION = "bfloat16" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "float32"


def small_cnn(num_labels: int) -> nn.Module:
    """Three pairs of 3 x 3 convolutions with batch norm, pooled to one vector."""
    parts: list[nn.Module] = []
    width = 3
    for wider in (32, 64, 128):
        for _ in range(2):
            parts += [nn.Conv2d(width, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU()]
            width = wider
        parts.append(nn.MaxPool2d(2))
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_labels))


def train_cnn(corpus: ImageCorpus, budget_s: float) -> dict[str, object]:
    """AdamW at a rate that falls with the time that is left; the same flips and crops, smoothing and precision."""
    torch.manual_seed(0)
    net, info = small_cnn(len(corpus.info.labels)), corpus.info
    optimizer = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=0.05)
    rows, seen, curve, spent, begun = ImageRows(corpus.train, 0), 0, [], 0.0, time.perf_counter()
    while (left := 1 - (time.perf_counter() - begun - spent) / budget_s) > 0:
        if 1 - left > (len(curve) + 1) / POINTS:
            started = time.perf_counter()
            curve.append([round(started - begun - spent), accuracy(net, corpus)])
            spent += time.perf_counter() - started
        numbers, places = rows.numbers(seen, BATCH), np.arange(seen, seen + BATCH)
        pixels = normalize(augment(corpus.train.pixels[numbers], 0, places, AugmentConfig()), info.mean, info.std)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(left, (1 - left) * 20 + 0.05)
        net.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bfloat16"):
            scores = net(torch.from_numpy(pixels)).float()
        functional.cross_entropy(scores, torch.from_numpy(corpus.train.labels[numbers]), label_smoothing=0.1).backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += BATCH
    return {"accuracy": accuracy(net, corpus), "images": seen, "training_s": budget_s, "curve": curve}


@torch.inference_mode()
def accuracy(net: nn.Module, corpus: ImageCorpus) -> float:
    net.eval()
    pixels = torch.from_numpy(normalize(as_shares(corpus.heldout.pixels), corpus.info.mean, corpus.info.std))
    found = torch.cat([net(some).argmax(-1) for some in pixels.split(256)])
    return float((found.numpy() == corpus.heldout.labels).mean())


def linear(corpus: ImageCorpus) -> float:
    from sklearn.linear_model import LogisticRegression

    def flat(pixels: np.ndarray) -> np.ndarray:
        return normalize(as_shares(pixels), corpus.info.mean, corpus.info.std).reshape(len(pixels), -1)

    model = LogisticRegression(C=1e-3, max_iter=100).fit(flat(corpus.train.pixels), corpus.train.labels)
    return float(model.score(flat(corpus.heldout.pixels), corpus.heldout.labels))


def speeds(rounds: int = 5) -> dict[str, float]:
    """Seconds of a training step (forward and backward, 64 images of 32 x 32), Firth's and transformers' in turn."""
    import transformers

    from firth.models.swin.network import SwinNetwork
    from firth.models.vit.network import VitNetwork

    vit, swin = find_run_recipe("vit-tiny").model, find_run_recipe("swin-tiny").model
    theirs = {
        "vit": transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=vit.hidden_dim, num_hidden_layers=vit.num_layers, num_attention_heads=vit.num_heads,
                intermediate_size=vit.ffn_dim, image_size=32, patch_size=vit.patch_size, num_labels=10,
            )
        ),
        "swin": transformers.SwinForImageClassification(
            transformers.SwinConfig(
                image_size=32, patch_size=swin.patch_size, embed_dim=swin.embedding_dim, depths=list(swin.depths),
                num_heads=list(swin.num_heads), window_size=swin.window_size, mlp_ratio=swin.ffn_ratio,
                drop_path_rate=0.0, num_labels=10,
            )
        ),
    }  # fmt: skip
    mine = {"vit": VitNetwork(vit), "swin": SwinNetwork(swin)}
    pixels, labels, found = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,)), {}
    for name, precision in ((name, one) for name in mine for one in dict.fromkeys(("float32", PRECISION))):
        net = nn.Sequential(mine[name], nn.Linear(mine[name].dim, 10)).train()
        other = theirs[name].train()
        times: dict[str, list[float]] = {"firth": [], "transformers": []}
        for _ in range(rounds + 1):
            for who, run in (("firth", net), ("transformers", lambda given, other=other: other(given).logits)):
                begun = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                    scores = run(pixels).float()
                functional.cross_entropy(scores, labels).backward()
                times[who].append(time.perf_counter() - begun)
        rates = {who: BATCH / statistics.median(all_s[1:]) for who, all_s in times.items()}
        found |= {f"{name} {precision} images/s {who}": round(rate, 1) for who, rate in rates.items()}
        found[f"{name} {precision} ratio"] = round(rates["firth"] / rates["transformers"], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--masked", default="2m", help="of the budget, for masked patches")
    parser.add_argument(
        "--only", nargs="*", default=["speed", "linear", "cnn", "vit", "swin", "vit-masked", "swin-masked"]
    )
    parser.add_argument("--work", type=Path, help="keep runs here, and go on with them")
    parser.add_argument(
        "--cpu-time", action="store_true", help="minutes of CPU time, where others use the machine, too"
    )
    parser.add_argument("--set", nargs="*", default=[], help="settings of ViT and Swin, as name=value")
    given = parser.parse_args()
    if given.cpu_time:
        time.perf_counter = time.process_time  # the training loop asks it, too
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        if not (work / "corpus").exists():
            firth.prepare_images(given.train, work / "corpus", dev=given.test)
        corpus = ImageCorpus.open(work / "corpus")
        for name in given.only:
            begun = time.perf_counter()
            if name == "speed":
                result: object = speeds()
            elif name == "linear":
                result = linear(corpus)
            elif name == "cnn":
                result = train_cnn(corpus, parse_duration(given.budget))
            else:
                result = train(name, work, given.budget, given.masked, given.set)
            print(json.dumps({"name": name, "seconds": time.perf_counter() - begun, "result": result}), flush=True)


def train(name: str, work: Path, budget: str, masked: str, settings: list[str]) -> dict[str, object]:
    model, _, after = name.partition("-")
    base, left = None, parse_duration(budget)
    if after:
        base, left = work / f"{name}-base", left - parse_duration(masked)
        run(f"{model}-tiny-masked", work, base, masked, None, 1, settings)
    out = work / name
    run(f"{model}-tiny", work, out, f"{left:.0f}s", base, POINTS, settings)
    record = json.loads((out / "firth.json").read_text())
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    curve = [[round(one["seconds"]), one["heldout_accuracy"]] for one in lines if one["event"] == "evaluate"]
    return {
        "accuracy": record["metrics"]["accuracy"],
        "images": record["tokens"],
        "training_s": round(record["seconds"]),
        "curve": curve,
    }


def run(recipe: str, work: Path, out: Path, budget: str, base: Path | None, points: int, settings: list[str]) -> None:
    """A training from nothing or a base; one that was begun goes on."""
    if out.exists():
        firth.pretrain(resume=out)
        return
    config = find_run_recipe(recipe).override([f"precision={PRECISION}", f"evaluations={points}", *settings])
    firth.pretrain(config, corpus=work / "corpus", out=out, budget=budget, base=base)


if __name__ == "__main__":
    main()
