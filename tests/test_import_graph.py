"""The rooms and who may enter them; what the package must not load; files that stay small."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import firth

ROOT = Path(firth.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
MAY_IMPORT = {
    "core": "",
    "data": "core tokenizers",
    "tokenizers": "core",
    "corpus": "core data tokenizers",
    "nn": "core",
    "training": "core",
    "decoding": "core",
    "reports": "core training.checkpoints",
    "vectors": "core data tokenizers corpus training",
    "models": "core data tokenizers corpus nn training decoding reports vectors",
    "retrieval": "core data tokenizers models",
    "tasks": "core data tokenizers corpus nn training decoding reports models retrieval",
    "evaluation": "core data tokenizers corpus nn training decoding reports vectors models retrieval tasks",
    "exporters": "core data tokenizers corpus nn decoding models retrieval tasks",
    "api": "core data tokenizers corpus training.checkpoints decoding reports vectors models retrieval tasks evaluation exporters",
    "serve": "core tokenizers corpus training decoding reports models retrieval tasks evaluation api __init__",
    "cli": "core data corpus training.checkpoints reports evaluation.probe_report tasks exporters api serve __init__",
    "__init__": "core models api",
    "__main__": "cli",
}
"""Which rooms a room may import; ARCHITECTURE.md shows the same table."""
TOP = ("api", "cli", "serve", "__init__")
WITHOUT_TORCH = ("core", "data", "tokenizers", "corpus", "vectors")


class Import(NamedTuple):
    name: str  # firth.core.errors, torch, ...
    line: int
    inside: bool  # of a function: loaded when it is called
    types_only: bool  # below ``if TYPE_CHECKING``


def imports(path: Path) -> list[Import]:
    return list(_walk(ast.parse(path.read_text(encoding="utf-8")), False, False))


def _walk(node: ast.AST, inside: bool, types_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, inside, types_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: imports are absolute here"
            for alias in child.names:
                name = f"{child.module}.{alias.name}" if child.module == "firth" else str(child.module)
                yield Import(name, child.lineno, inside, types_only)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for part in child.body:
                yield from _walk(ast.Module([part], []), inside, True)
            for part in child.orelse:
                yield from _walk(ast.Module([part], []), inside, types_only)
        else:
            yield from _walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef), types_only)


def room_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_rooms(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is no room of the table: add it there and say what it may import"
    allowed = [f"firth.{name}" for name in (room, *MAY_IMPORT[room].split())]
    for found in imports(path):
        if found.name.split(".")[0] != "firth" or (found.types_only and room in (*TOP, "core")):
            continue
        fits = (found.name == "firth" and "firth.__init__" in allowed) or any(
            found.name == name or found.name.startswith(f"{name}.") for name in allowed
        )
        assert fits, f"{named(path)}:{found.line}: {room} may not import {found.name}"


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) in WITHOUT_TORCH], ids=named)
def test_rooms_without_torch(path: Path) -> None:
    """Only core names torch, and only inside functions or for the type checker."""
    for found in imports(path):
        if found.name.split(".")[0] == "torch" or found.name == "safetensors.torch":
            fits = room_of(path) == "core" and (found.inside or found.types_only)
            assert fits, f"{named(path)}:{found.line}: torch has no place here"


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=named)
def test_init_files_are_empty(path: Path) -> None:
    """But that of a model says its ``SPEC``."""
    if path.parent.parent == ROOT / "models" and path.parent.name != "shared":
        assert "\nSPEC = " in path.read_text(encoding="utf-8")
    else:
        assert path == ROOT / "__init__.py" or not path.read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_cycle() -> None:
    """No file imports itself by way of others, imports inside functions included."""
    known = {module_name(path): path for path in MODULES}
    graph = {
        name: {found.name for found in imports(path) if not found.types_only and found.name in known} - {name}
        for name, path in known.items()
    }
    while True:  # what imports nothing that is left is in no cycle
        free = [name for name, wanted in graph.items() if not wanted & graph.keys()]
        if not free:
            break
        for name in free:
            del graph[name]
    assert not graph, f"these files import one another in a circle: {', '.join(sorted(graph))}"


OWN_TASKS = {
    "counts.py": "counts",
    "tag_linear.py": "counts",
    "fasttext.py": "fasttext",
    "fasttext_run.py": "fasttext",
    "finetune.py": "counts",
}
"""Models that are themselves a form of a task, and the files that are about them."""


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) == "tasks"], ids=named)
def test_tasks_know_no_single_model(path: Path) -> None:
    """Tasks ask the contract (``Model``, ``ModelSpec``), so that a new model needs no line here."""
    allowed = {"shared", "pretrain", OWN_TASKS.get(path.name, "shared")}
    for found in imports(path):
        if found.name.startswith("firth.models."):
            assert found.name.split(".")[2] in allowed, f"{named(path)}:{found.line}: {found.name} is a single model"


HEAVY = {"torch", "numba", "transformers", "numpy", "tokenizers", "pyarrow", "sklearn", "scipy"}
SAY = "import sys; print(sorted(name for name in sys.modules if '.' not in name))"


@pytest.mark.parametrize(
    "program",
    [
        f"import firth; {SAY}",
        f"import firth.cli.main; {SAY}",
        f"from firth.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass\n{SAY}",
        f"from firth.cli.main import main\ntry:\n    main(['prepare', '--help'])\nexcept SystemExit: pass\n{SAY}",
    ],
    ids=["import", "cli", "help", "command-help"],
)
def test_light(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    assert "firth" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_rooms_load_without_torch(room: str) -> None:
    """Not by way of others either."""
    names = [
        f"firth.{named(path).removesuffix('.py').replace('/', '.')}"
        for path in MODULES
        if room_of(path) == room and path.name not in ("__init__.py", "__main__.py")
    ]
    program = f"import importlib\nfor name in {names}: importlib.import_module(name)\n{SAY}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "torch" not in ast.literal_eval(done.stdout.splitlines()[-1])


WITHOUT_CLUSTER = """
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ray", "fsspec", "s3fs", "botocore"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import firth
for name in sys.argv[3:]:
    importlib.import_module(name)
firth.prepare(sys.argv[1], sys.argv[2], tokens="words", layout="line")
firth.pretrain("word2vec", corpus=sys.argv[2], out=sys.argv[2] + ".run", dim=8, epochs=1, min_count=1, threads=1)
print(firth.encode(sys.argv[2] + ".run", ["the map"]).shape)
for broken in (lambda: firth.prepare(sys.argv[1], sys.argv[2] + "2", engine="ray"), lambda: firth.load("s3://a/b")):
    try:
        broken()
    except firth.FirthError as error:
        print(error)
"""


@pytest.mark.slow
def test_the_plain_path_needs_no_cluster(text_file: Path, tmp_path: Path) -> None:
    """Neither ray nor fsspec; where they are asked for, a sentence says how to have them."""
    names = [
        f"firth.{named(path).removesuffix('.py').replace('/', '.')}"
        for path in MODULES
        if room_of(path) in ("core", "data", "corpus", "retrieval", "tasks", "evaluation", "api", "cli")
        and path.name not in ("__init__.py", "__main__.py")
    ]
    command = [sys.executable, "-c", WITHOUT_CLUSTER, str(text_file), str(tmp_path / "words"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shape, ray, store = done.stdout.splitlines()
    assert shape == "(1, 8)"
    assert ray == "--engine ray needs the package ray: pip install 'firth[cluster]'"
    assert "needs a package that is missing: pip install 'firth[cluster]' s3fs" in store
