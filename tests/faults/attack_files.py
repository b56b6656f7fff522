"""Hostile files of the kinds that are neither models, vectors nor plain text: documents in containers, images, directories
of sentence-transformers, labelled files, indexes, classifiers, checkpoints. An honest one is damaged in one place.
"""

import io
import json
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import fasttext
import numpy as np
import pyarrow
import pyarrow.parquet
from attack_models import HOSTILE, hostile_bytes, hostile_json, hostile_safetensors
from attack_runner import Case
from attack_seeds import ENCODER, LOOP
from attack_text import packed, sentences
from PIL import Image
from safetensors.numpy import save_file

import firth

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BAD_PATHS = (
    *("../../etc/passwd", "/etc", "..", "", ".", "a\0b", "1_Pooling/../..", "~", "http://127.0.0.1:9/x", "\ud800"),
    *("x" * 5000, "/proc/self/mem", "/dev/zero", "2_Dense/" * 900),
)
OUT = ["--out", "corpus", "--vocab-size", "300", "--workers", "1"]
RESUMED = ("bert-tiny", "fasttext")


# -- documents


MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"


def docx(lines: list[str], head: str = "", depth: int = 0, alternates: int = 0) -> bytes:
    from xml.sax.saxutils import escape

    clean = ("".join(char for char in line if char >= " " and char not in "\ufffe\uffff") for line in lines)
    inner = "<w:r>" * depth, "</w:r>" * depth
    body = "".join(f"<w:p>{inner[0]}<w:r><w:t>{escape(line)}</w:t></w:r>{inner[1]}</w:p>" for line in clean)
    for kind in ("Choice", "Fallback") * alternates:  # each inside the one before
        body = f"<mc:AlternateContent><mc:{kind}><w:p><w:r><w:t>x</w:t></w:r>{body}</w:p></mc:{kind}></mc:AlternateContent>"
    text = f'<w:document xmlns:w="{WORD}" xmlns:mc="{MC}"><w:body>{body}</w:body></w:document>'
    return packed("word/document.xml", f'<?xml version="1.0" encoding="UTF-8"?>{head}{text}'.encode())


def pdf(lines: list[str], loop: bool = False) -> bytes:
    """One page; with ``loop`` the tree of pages contains itself."""
    shown = "".join(f"({line}) Tj 0 -14 Td " for line in lines if line.isascii() and line.isalnum())
    stream = f"BT /F1 12 Tf 50 700 Td {shown}(doctor) Tj ET".encode()
    kids = "2 0 R 3 0 R" if loop else "3 0 R"
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count 1 >>".encode(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


def tar(lines: list[str], pick: random.Random) -> bytes:
    """Texts, with a member that should not be there."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number, line in enumerate(lines[:10]):
            data = line.encode() if number % 2 else json.dumps({"text": line}).encode()
            member = tarfile.TarInfo(f"{number}.{'txt' if number % 2 else 'json'}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        odd = tarfile.TarInfo(
            pick.choice(["../../up.txt", "/abs.txt", "a\nb.txt", "x" * 3000 + ".txt", "dev.txt", ".txt"])
        )
        odd.type = pick.choice([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
        odd.linkname = pick.choice(["/etc/passwd", "1.txt", odd.name, "../.."])
        archive.addfile(odd)
        sparse = tarfile.TarInfo("big.txt")
        sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9" * 12}
        sparse.size = 512
        archive.addfile(sparse, io.BytesIO(bytes(512)))
    return out.getvalue()


def arrow(lines: list[str], pick: random.Random) -> bytes:
    out = io.BytesIO()
    values = pick.choice([lines, [line.encode() for line in lines], [[line] for line in lines], [None, *lines]])
    table = pyarrow.table({"text": values, "number": range(len(values))})
    make = pyarrow.ipc.new_stream if pick.random() < 0.5 else pyarrow.ipc.new_file
    with make(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def document_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"document {seed}")
    place.mkdir(parents=True)
    lines = sentences(pick).splitlines()
    kind = pick.choice(["docx", "pdf", "tar", "arrow", "folder"])
    if kind == "docx":
        bomb = '<!DOCTYPE a [<!ENTITY x "xxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]>'
        raw = docx(lines, pick.choice(["", "", bomb]), pick.choice([0, 0, 2000, 50_000]), pick.choice([0, 1, 3, 2000]))
        if pick.random() < 0.2:
            raw = packed("word/document.xml", b"<a>" * pick.choice([1, 10**5]) + b" " * pick.choice([10, 10**8]))
    elif kind == "pdf":
        raw = pdf(lines, pick.random() < 0.3)
    elif kind == "tar":
        raw = tar(lines, pick)
    else:
        raw = arrow(lines, pick)
    if pick.random() < 0.7:
        raw = hostile_bytes(raw, pick)
    name = f"a.{kind}"
    if kind == "folder":  # of Hugging Face's datasets
        name = "data"
        (place / name).mkdir()
        (place / name / "data-00000-of-00001.arrow").write_bytes(raw)
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}
        (place / name / "state.json").write_bytes(hostile_json(state, pick))
    else:
        (place / name).write_bytes(raw)
    index = ["index", name, "--out", "found"]
    return Case(
        f"document:{seed} ({kind})", pick.choice([["prepare", name, *OUT], ["prepare", name, *OUT], index]), place
    )


# -- images


def image_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"image {seed}")
    shutil.copytree(seeds / "images", place / "images")
    paths = sorted((place / "images").rglob("*.png"))
    path = pick.choice(paths)
    mode = pick.choice(["RGB", "L", "RGBA", "P", "1", "I;16", "CMYK", "LA", "F"])
    kind = pick.choice(["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
    size = pick.choice([(16, 16), (1, 1), (1, 9000), (300, 2)])
    out = io.BytesIO()
    try:
        Image.new(mode, size).save(out, kind)
    except (OSError, ValueError, KeyError):
        out = io.BytesIO(path.read_bytes())
    raw = out.getvalue()
    if pick.random() < 0.3 and raw[:4] == b"\x89PNG":  # a size that nobody can decode
        raw = raw[:16] + pick.choice([b"\x00\x00\xff\xff" * 2, b"\x7f\xff\xff\xff" * 2, bytes(8)]) + raw[24:]
    path.write_bytes(hostile_bytes(raw, pick) if pick.random() < 0.7 else raw)
    words = ["prepare-images", "images", "--out", "corpus", "image_size=16"]
    way = pick.randrange(4)
    if way == 1:
        shutil.copytree(seeds / "runs" / "vit", place / "model")
        words = ["encode", "model", str(path.relative_to(place))]
    elif way == 2:
        value = pick.choice([*BAD_PATHS, "images", str(path.relative_to(place))])
        rows = json.dumps({"path": value, "label": pick.choice(HOSTILE)})
        (place / "table.jsonl").write_text(
            rows + "\n" + json.dumps({"path": str(paths[0].relative_to(place)), "label": "a"})
        )
        words[1] = "table.jsonl"
    elif way == 3:
        shape = pick.choice([(4, 16, 16, 3), (4, 16, 16), (4,), (0, 16, 16), (4, 16, 16, 7), (2, 0, 4)])
        arrays = {
            "images": np.zeros(shape, pick.choice(["u1", "f4", "i8", "U3"])),
            "labels": np.arange(pick.choice([4, 2])),
        }
        np.savez(place / "a.npz", **arrays)
        raw = (place / "a.npz").read_bytes()
        (place / "a.npz").write_bytes(hostile_bytes(raw, pick) if pick.random() < 0.5 else raw)
        words[1] = "a.npz"
    return Case(f"image:{seed} ({kind}, {mode}, {words[0]})", words, place)


# -- directories of sentence-transformers


def sentence_folder(seeds: Path, folder: Path) -> None:
    """A BERT with pooling, a dense layer and a norm."""
    shutil.copytree(seeds / "runs" / "bert", folder, ignore=shutil.ignore_patterns("firth.json", "*.jsonl", "*.html"))
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    for number, kind in enumerate(kinds[1:], 1):
        (folder / f"{number}_{kind}").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    dense = {
        "in_features": 16,
        "out_features": 8,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (folder / "2_Dense" / "config.json").write_text(json.dumps(dense))
    draws = np.random.default_rng(0)
    weights = {"linear.weight": draws.normal(size=(8, 16)).astype("f4"), "linear.bias": np.zeros(8, "f4")}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, "do_lower_case": False}))
    prompts = {"prompts": {"query": "ask: "}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))


def sentence_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"sentence {seed}")
    place.mkdir(parents=True)
    shutil.copy(seeds / "texts.txt", place)
    folder = place / "model"
    sentence_folder(seeds, folder)
    names = ("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors")
    path = folder / pick.choice(
        [*names, "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"]
    )
    if path.suffix == ".safetensors":
        path.write_bytes(hostile_safetensors(path, pick))
    elif path.name == "modules.json" and pick.random() < 0.6:
        value = json.loads(path.read_bytes())
        one = pick.choice(value)
        one[pick.choice(["path", "path", "type", "name"])] = pick.choice([*BAD_PATHS, "posix.system", "os.system"])
        value = pick.choice([value, value, value[1:], value + value, value * 500])
        path.write_text(json.dumps(value))
    else:
        path.write_bytes(hostile_json(json.loads(path.read_bytes()), pick))
    words = pick.choice(
        [["encode", "model", "texts.txt"], ["similarity", "model", "a dog", "a cat"], ["info", "model"]]
    )
    return Case(f"sentence:{seed} ({path.relative_to(folder)})", words, place)


# -- labelled files


def labelled_files(place: Path, pick: random.Random) -> dict[str, bytes]:
    """Honest ones of every shape, by name."""
    odd = pick.choice([*(value for value in HOSTILE if isinstance(value, str)), "a\tb", '"', "\u202e", "老师"])
    texts = [f"{'good' if number % 2 else 'bad'} film {number}" for number in range(16)]
    labels = [("bad", "good")[number % 2] for number in range(16)]
    texts[pick.randrange(16)] = pick.choice([odd, texts[0]])
    labels[pick.randrange(16)] = pick.choice([odd, labels[0]])
    rows = list(zip(texts, labels, strict=True))
    squad = {
        "data": [
            {
                "title": "t",
                "paragraphs": [
                    {
                        "context": "The old doctor slept.",
                        "qas": [
                            {"id": str(number), "question": "who?", "answers": [{"text": "doctor", "answer_start": 8}]}
                        ],
                    }
                ],
            }
            for number in range(4)
        ]
    }
    lines = [f"{word}\t{tag}" for word, tag in (("the", "O"), ("doctor", "B-PER"), ("slept", "O"))]
    table = io.BytesIO()
    safe = [[one.encode("utf-8", "replace").decode() for one in column] for column in (texts, labels)]
    pyarrow.parquet.write_table(pyarrow.table({"text": safe[0], "label": safe[1]}), table)
    objects = [{"text": text, "label": label} for text, label in rows]
    return {
        "a.tsv": "\n".join(["text\tlabel", *map("\t".join, rows)]).encode("utf-8", "surrogatepass"),
        "a.csv": "\n".join(["text,label", *(f'"{text}",{label}' for text, label in rows)]).encode(
            "utf-8", "surrogatepass"
        ),
        "a.jsonl": b"\n".join(
            hostile_json(row, pick) if pick.random() < 0.2 else json.dumps(row).encode() for row in objects
        ),
        "a.json": hostile_json(squad, pick),
        "a.conll": ("\n\n".join("\n".join(lines) for _ in range(8)) + "\n").encode(),
        "a.parquet": table.getvalue(),
    }


def labelled_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"labelled {seed}")
    place.mkdir(parents=True)
    files = labelled_files(place, pick)
    name = pick.choice(list(files))
    raw = files[name]
    (place / name).write_bytes(hostile_bytes(raw, pick) if pick.random() < 0.6 and raw else raw)
    task = {"a.json": "answer", "a.conll": "tag"}.get(name, pick.choice(["classify", "classify", "score", "embed"]))
    check = ["finetune", task, "--train", name, "--check"]
    counts = ["finetune", "classify", "--base", "counts", "--train", name, "--out", "run"]
    words = pick.choice([check, check, counts, ["predict", "model", name], ["suggest", "model", name]])
    if words[1] == "model":
        shutil.copytree(seeds / "runs" / "task", place / "model")
        words += ["--out", "scored.csv"] if words[0] == "predict" else []
    return Case(f"labelled:{seed} ({name}, {words[0]} {words[1]})", words, place)


# -- runs that are to go on, classifiers


def interrupted(seeds: Path, recipe: str) -> Path:
    """A training that was stopped after its first steps; by SIGTERM, since a job in the background may ignore Ctrl-C."""
    out = seeds / "interrupted" / recipe
    if not out.is_dir():
        corpus = seeds / "corpora" / ("words" if recipe == "fasttext" else "pieces")
        settings = [*ENCODER, *LOOP[:-1], "steps=20000"]
        settings = ["dim=8", "min_count=1", "epochs=100000", "bucket=50"] if recipe == "fasttext" else settings
        command = [
            sys.executable,
            "-m",
            "firth",
            "pretrain",
            recipe,
            "--corpus",
            str(corpus),
            "--out",
            str(out),
            *settings,
        ]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert job.stderr is not None
        while not (out / "metrics.jsonl").is_file() and not list(out.glob("checkpoints/*")) and job.poll() is None:
            signal.sigtimedwait([], 0.2)
        job.send_signal(signal.SIGTERM)
        told = job.communicate()[1]
        assert job.returncode == 143, told
    return out


def resumed_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"resumed {seed}")
    recipe = pick.choice(RESUMED)
    place.mkdir(parents=True)
    shutil.copytree(interrupted(seeds, recipe), place / "run")
    files = sorted(
        path for path in (place / "run").rglob("*") if path.is_file() and path.suffix not in (".html", ".md")
    )
    path = pick.choice(files)
    raw = path.read_bytes()
    if path.suffix == ".json" and pick.random() < 0.8:
        path.write_bytes(hostile_json(json.loads(raw), pick))
    elif path.suffix == ".safetensors" and pick.random() < 0.8:
        path.write_bytes(hostile_safetensors(path, pick))
    else:
        path.write_bytes(hostile_bytes(raw, pick) if raw else b"\0")
    words = pick.choice(
        [["info", "run"], ["plan", recipe, "--corpus", "run"], ["pretrain", "--resume", "run", "--budget", "1s"]]
    )
    return Case(f"resumed:{seed} ({recipe}, {path.relative_to(place / 'run')})", words, place)


def classifier(seeds: Path) -> Path:
    """The original's own files of a classifier, whole and quantised."""
    out = seeds / "classifier"
    if not (out / "model.ftz").is_file():
        out.mkdir(exist_ok=True)
        small = {"dim": 8, "min_n": 2, "max_n": 4, "bucket": 400}
        firth.export(
            firth.finetune("classify", train=seeds / "labels.tsv", base="fasttext", out=out / "run", **small).path,
            out / "model.bin",
        )
        model = fasttext.load_model(str(out / "model.bin"))
        model.quantize()
        model.save_model(str(out / "model.ftz"))
    return out


def classifier_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"classifier {seed}")
    place.mkdir(parents=True)
    shutil.copy(seeds / "texts.txt", place)
    path = pick.choice(sorted(path for path in classifier(seeds).iterdir() if path.is_file()))
    (place / path.name).write_bytes(hostile_bytes(path.read_bytes(), pick))
    words = pick.choice([["predict", path.name, "texts.txt"], ["info", path.name], ["encode", path.name, "texts.txt"]])
    return Case(f"classifier:{seed} ({path.name})", words, place)


MAKERS: dict[str, Callable[[Path, int, Path], Case]] = {
    "document": document_case,
    "image": image_case,
    "sentence": sentence_case,
    "labelled": labelled_case,
    "resumed": resumed_case,
    "classifier": classifier_case,
}
