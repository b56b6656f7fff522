"""``report.html``: one self-contained page about a run; light or dark as the reader's system is."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from firth.core.files import write_text
from firth.core.records import Chart
from firth.core.run import Run, RunRecord
from firth.core.units import show_count, show_duration
from firth.reports.charts import line_chart
from firth.training.history import read_history

_STYLE = """
:root{color-scheme:light dark;--text:#1c2126;--soft:#5c6670;--back:#fff;--card:#f5f6f8;--rule:#d9dde2;--c0:#1f6feb;--c1:#d1580a;--c2:#2a8f4f;--c3:#8b46c9;--c4:#b3263e;--c5:#0b8a8f;--c6:#7a6a00;--c7:#5c6670}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ec;--soft:#9aa5b0;--back:#14171a;--card:#1d2226;--rule:#343b42;--c0:#6aa8ff;--c1:#ff9d5c;--c2:#6fd08c;--c3:#c493ff;--c4:#ff8296;--c5:#5fd3d8;--c6:#d8c65a;--c7:#9aa5b0}}
body{font:16px/1.5 system-ui,"Noto Sans CJK SC",sans-serif;color:var(--text);background:var(--back);max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.soft{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:1rem 0}
.facts div{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}.facts b{display:block;font-size:1.25rem}
figure{margin:0;background:var(--card);border-radius:.5rem;padding:.6rem}svg{width:100%;height:auto;display:block}
svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--rule);stroke-width:1}.line{fill:none;stroke-width:2}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.dot.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}
.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.dot.c3{fill:var(--c3)}.dot.c4{fill:var(--c4)}.dot.c5{fill:var(--c5)}.dot.c6{fill:var(--c6)}.dot.c7{fill:var(--c7)}td.right{color:var(--c2)}.cell{fill:var(--c0)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid var(--rule);padding:.3rem .6rem;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}details summary{cursor:pointer}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{background:var(--card);padding:.8rem;border-radius:.5rem;overflow-x:auto}
"""


def page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def cards(values: dict[str, str]) -> str:
    return (
        '<div class="facts">'
        + "".join(f"<div>{html.escape(name)}<b>{html.escape(value)}</b></div>" for name, value in values.items())
        + "</div>"
    )


def _rows(values: Mapping[str, object], prefix: str = "") -> str:
    out = ""
    for name, value in values.items():
        if isinstance(value, dict):
            out += _rows(value, f"{prefix}{name}.")
        else:
            out += f"<tr><td><code>{html.escape(prefix + name)}</code></td><td>{html.escape(str(value))}</td></tr>"
    return out


def settings_table(record: RunRecord) -> str:
    """Everything that was set, folded away."""
    rows = _rows(record.config) + _rows(record.versions, "version.")
    return (
        "<h2>Settings</h2><details><summary>all settings and versions</summary>"
        f'<div class="wide"><table>{rows}</table></div></details>'
    )


def _chart(chart: Chart) -> str:
    """A chart that only this model has."""
    drawn = line_chart(chart.series, chart.x, chart.y)
    return f'<h2>{html.escape(chart.title)}</h2><p class="soft">{html.escape(chart.note)}</p><figure>{drawn}</figure>'


def _perplexities(heldout: Sequence[dict[str, Any]]) -> str:
    """Held-out perplexity by step, a line for each that was measured (ELMo: forward, backward and their mean)."""
    names = [name for name in (heldout[-1] if heldout else ()) if name.endswith("perplexity")]
    series = {
        name.removeprefix("heldout_").replace("_", " "): [
            (line["step"], line[name]) for line in heldout if name in line
        ]
        for name in names
    }
    drawn = line_chart(series, "step", "perplexity")
    return f"<h2>Held-out perplexity</h2><figure>{drawn}</figure>" if drawn else ""


def write_report(run: Run, parts: Sequence[str] = ()) -> None:
    """Curves, results, settings and the next commands; ``parts`` are a model's own."""
    record = run.record
    lines = read_history(run.folder / "metrics.jsonl")
    train = [line for line in lines if line["event"] == "train"]
    heldout = [line for line in lines if line["event"] == "evaluate"]
    losses = {
        "training": [(line["step"], line["loss"]) for line in train],
        "held-out": [(line["step"], line["heldout_loss"]) for line in heldout],
    }
    shown = {
        "parameters": show_count(record.parameters),
        "steps": f"{record.steps or 0:,}",
        "tokens seen": show_count(record.tokens),
        "epochs": f"{record.epochs:.2f}",
        "time": show_duration(record.seconds),
        "tokens/s": show_count(record.tokens / max(record.seconds, 1e-9)),
    }
    shown |= {f"held-out {name.replace('_', ' ')}": f"{value:.4g}" for name, value in record.metrics.items()}
    name = html.escape(run.folder.name)
    uses = "\n".join(f"firth {command.format(name=run.folder.name)}" for command in record.uses)
    body = [
        f'<p class="soft">Firth run</p><h1>{name}</h1><p class="soft">recipe {html.escape(record.recipe)}</p>',
        cards(shown),
        f"<h2>Loss</h2><figure>{line_chart(losses, 'step', 'loss')}</figure>",
        _perplexities(heldout),
        f"<h2>Learning rate</h2><figure>{line_chart({'learning rate': [(line['step'], line['learning_rate']) for line in train]}, 'step', 'rate')}</figure>",
        f"<h2>Speed</h2><figure>{line_chart({'tokens/s': [(line['step'], line['tokens_per_s']) for line in train]}, 'step', 'tokens/s')}</figure>",
        *(_chart(chart) for chart in record.charts),
        *parts,
        *(f'<p class="soft">{html.escape(note)}</p>' for note in record.notes.values()),
        f"<h2>Use it</h2><pre>{html.escape(uses)}</pre>",
        settings_table(record),
    ]
    write_text(run.folder / "report.html", page(f"{run.folder.name} · Firth", "".join(body)))
