"""Every kind of model is served alike: whatever it says it can do, it does when asked over HTTP."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import firth
from firth.core.registry import find_run_recipe
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models

LOOP = ["steps=2", "batch_size=4", "evaluation_batches=1", "evaluations=1", "checkpoints=1"]
SMALL = ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "seq_len=32"]
KINDS: dict[str, tuple[str, str, list[str]]] = {
    "elmo": (
        "elmo-tiny",
        "words_folder",
        ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=12"],
    ),
    "recurrent": ("lstm-lm", "corpus_folder", ["num_layers=1", "hidden_dim=32", "embedding_dim=24", "seq_len=8"]),
    "xlnet": ("xlnet-tiny", "corpus_folder", [*SMALL, "memory_len=8"]),
    "translator": (
        "transformer-tiny",
        "pairs_folder",
        ["num_layers=1", "num_decoder_layers=1", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "batch_tokens=128"],
    ),
}
ABILITIES = {
    "elmo": {"encode", "nearest", "map", "layers", "context", "occurrences"},
    "recurrent": {"encode", "generate", "map", "layers", "context"},
    "xlnet": {"encode", "fill", "map", "layers", "context", "attention"},
    "translator": {"encode", "translate", "map", "layers", "context", "attention", "alignment"},
}
TEXT = "the old doctor found a clock"


def question(ability: str, facts: dict[str, Any]) -> dict[str, Any]:
    """A body that a model with this ability can answer."""
    return {
        "nearest": {"word": "doctor", "top": 2},
        "map": {"words": ["doctor", "clock", "river"]},
        "fill": {"text": f"the old {facts['mask']} found a clock", "top": 2},
        "generate": {"text": TEXT, "max_tokens": 3, "temperature": 0.0},
        "translate": {"texts": [TEXT, ""], "beams": 2},
        "context": {"sentences": [{"text": TEXT, "word": "doctor"}, {"text": "a doctor", "word": "doctor"}]},
        "occurrences": {"sentence": TEXT, "word": "doctor", "top": 1},
    }.get(ability, {"text": TEXT})


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_model_says_it_can_do(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    recipe, corpus, settings = KINDS[kind]
    config = find_run_recipe(recipe)
    known = set(config.keys()) | {key.rpartition(".")[2] for key in config.keys()}
    loop = [word for word in LOOP if word.partition("=")[0] in known]
    config = config.override([*settings, *loop])
    firth.pretrain(config, corpus=request.getfixturevalue(corpus), out=tmp_path / kind)
    models = load_models([tmp_path / kind])
    server = Server(models, ServeSettings(threads=1))
    server.start()
    try:
        client = TestClient(server.app, base_url="http://localhost")
        facts = client.get("/models").json()["models"][0]
        assert ABILITIES[kind] <= set(facts["abilities"])
        for ability in facts["abilities"]:
            answer = client.post(f"/{ability}", json=question(ability, facts))
            assert answer.status_code == 200, (ability, answer.text)
            assert answer.json()["model"] == kind
        vectors = client.post("/encode", json={"texts": [TEXT, "", "a b"]}).json()["vectors"]
        assert np.asarray(vectors, float).shape == (3, facts["dim"])
        assert client.get("/runs").json()["runs"][0]["recipe"] is not None
    finally:
        server.finish()
