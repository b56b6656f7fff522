"""ERNIE directories as Hugging Face writes them: BERT with its own prefix and a table of tasks."""

from dataclasses import replace

from firth.models.bert.format import BERT

ERNIE = replace(
    BERT,
    model_type="ernie",
    title="ERNIE",
    heads={
        part: {ours: theirs.replace("bert.", "ernie.") for ours, theirs in names.items()}
        for part, names in BERT.heads.items()
    },
    architectures=tuple((head, name.replace("Bert", "Ernie")) for head, name in BERT.architectures),
    outside={"embeddings.tasks.weight": "embeddings.task_type_embeddings.weight"},
    settings={"num_tasks": "task_type_vocab_size"},
    defaults={"task_type_vocab_size": 3},
    switch="use_task_id",
)
