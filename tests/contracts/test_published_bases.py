"""A published encoder as the beginning of one's own: trained further, taught a task, asked."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

import firth
from firth.core.errors import FirthError
from model_abilities import check_abilities
from published_models import write_model
from sample_text import write_documents
from task_text import files


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "albert", "mpnet", "modernbert", "deberta-v2"])
def test_trained_further(model_type: str, tmp_path: Path) -> None:
    base, corpus, run, task = (tmp_path / name for name in ("base", "corpus", "run", "task"))
    write_model(base, model_type)
    firth.prepare(write_documents(tmp_path / "a.txt", 60), corpus, tokenizer=base, layout="line", workers=1)
    firth.pretrain("bert-continue", corpus=corpus, out=run, base=base, steps=2, batch_size=4, seq_len=32)
    assert json.loads((run / "config.json").read_text())["model_type"] == model_type
    _, info = AutoModelForMaskedLM.from_pretrained(run, output_loading_info=True)
    assert not any(info.values()), info
    check_abilities(firth.load(run))
    firth.finetune("classify", base=run, **files(tmp_path, "classify"), out=task, epochs=1, pool="cls")
    assert "label" in firth.load(task).predict(["An apple!"])[0]
    if model_type != "modernbert":
        AutoModelForSequenceClassification.from_pretrained(task)


def test_a_base_is_needed(corpus_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="bert-continue trains a finished model further: name it with --base"):
        firth.pretrain("bert-continue", corpus=corpus_folder, out=tmp_path / "run", steps=1)
