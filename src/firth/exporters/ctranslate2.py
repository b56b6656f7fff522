"""Translation models for CTranslate2, which decodes Transformers in C++: writing its folder (``model.bin``, ``config.json``,
vocabularies), loading it, and comparing both.

Its Transformer has pre- and post-norm, RMS norm, gated feed-forward, T5's relative positions and tables of positions;
``misfit`` names what it does not have.
"""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError, import_extra
from firth.core.files import atomic_folder, checksum, read_json
from firth.core.registry import spec_of_model_type
from firth.core.run import ExportRecord, Run, RunRecord, TranslationCheck, versions
from firth.core.types import SameProcess
from firth.corpus.pairs import PairsCorpus
from firth.data.sources import find_sources, numbered_lines
from firth.decoding.steps import Beam, Hypothesis, Rules
from firth.exporters.ctranslate2_check import check_translator
from firth.models.shared.configs import EncoderDecoderConfig, TranslatorConfig
from firth.models.shared.encoder_decoder import EncoderDecoder, PositionTable
from firth.models.shared.published import Weights
from firth.models.shared.translation_model import TranslationModel, Translator
from firth.models.shared.translator_format import load_translator
from firth.nn.layers import without_numbers
from firth.tokenizers.pieces import Pieces

if TYPE_CHECKING:
    import ctranslate2
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import EmbeddingsSpec, LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import FeedForwardSpec, TransformerDecoderSpec, TransformerEncoderSpec


class CTranslate2Model(Translator):
    """What ``firth.load`` returns for a folder of ``firth export --to ctranslate2``.

    The beam search of CTranslate2 returns as many finished hypotheses as the beam is wide; Firth ranks them by its own
    formula. Banned special tokens get no probability: the scores are normalised over the other tokens.
    """

    kind = "exported translator"
    engine = "ctranslate2"

    def __init__(
        self,
        translator: "ctranslate2.Translator",
        config: EncoderDecoderConfig,
        ids: dict[str, int],
        pieces: Pieces,
        target_pieces: Pieces,
        languages: list[str],
        names: tuple[list[str], list[str]],
        room: int | None,
        num_parameters: int,
    ) -> None:
        """``names`` are the tokens of source and target in CTranslate2's vocabularies."""
        super().__init__(ids, pieces, target_pieces, languages)
        self.config, self.dim, self.num_layers = config, config.hidden_dim, config.num_layers
        self.target_vocab_size = config.target_vocab_size or config.vocab_size
        self._process = SameProcess("CTranslate2")
        self._translator, self.room, self._num_parameters = translator, room, num_parameters
        self.names, self.target_names = names
        self.numbers = {name: number for number, name in enumerate(self.target_names)}

    @property
    def num_parameters(self) -> int:
        return self._num_parameters

    def _abilities(self) -> set[str]:
        return {"translate"}

    def search(
        self, rows: list[NDArray[np.int64]], forced: list[list[int]], beam: Beam, max_tokens: int, rules: Rules
    ) -> list[list[Hypothesis]]:
        self._process.check()
        prefixes = [[self.target_names[number] for number in begun] for begun in forced]
        found = self._translated(
            [[self.names[number] for number in row] for row in rows],
            target_prefix=prefixes if any(forced) else None,
            beam_size=beam.width,
            num_hypotheses=beam.width,
            length_penalty=0,
            max_decoding_length=max_tokens,
            min_decoding_length=rules.min_tokens,
            no_repeat_ngram_size=rules.no_repeat_ngram,
            repetition_penalty=rules.repetition_penalty,
            suppress_sequences=[[self.target_names[number]] for number in rules.banned] or None,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        return [self._ranked(one, len(begun), beam) for one, begun in zip(found, forced, strict=True)]

    def _translated(self, rows: list[list[str]], **options: object) -> "list[ctranslate2.TranslationResult]":
        try:
            return self._translator.translate_batch(rows, **options)
        except (RuntimeError, ValueError) as error:
            raise FirthError(f"CTranslate2 cannot translate this ({error}); export the model again") from None

    def _ranked(self, found: "ctranslate2.TranslationResult", num_forced: int, beam: Beam) -> list[Hypothesis]:
        pairs = zip(found.hypotheses, found.scores, strict=True)
        some = [self._hypothesis(tokens, score, num_forced, beam) for tokens, score in pairs]
        return sorted(some, key=lambda one: -one.normalised)[: beam.num_best]

    def _hypothesis(self, tokens: list[str], score: float, num_forced: int, beam: Beam) -> Hypothesis:
        ids = [self.numbers[token] for token in tokens][num_forced:]
        normalised = score / beam.penalty(max(len(ids), 1))
        ended = bool(ids) and ids[-1] == self.eos_id
        return Hypothesis(ids[:-1] if ended else ids, score, normalised, ended)


_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
_POSITIONS = 2048  # rows of the sinusoidal table, which has a fixed size here
_MAX_DISTANCE = 128


def _ctranslate2() -> ModuleType:
    return import_extra("ctranslate2", "ctranslate2", "a model for CTranslate2")


def open_translator(folder: Path) -> "ctranslate2.Translator":
    """CTranslate2's translator, with as many threads as PyTorch uses."""
    try:
        return _ctranslate2().Translator(str(folder), device="cpu", intra_threads=torch.get_num_threads())
    except (RuntimeError, ValueError) as error:
        raise FirthError(f"{folder}: CTranslate2 cannot open it ({error}); export it again") from None


def num_positions(config: EncoderDecoderConfig) -> int | None:
    """The largest number of tokens of the exported model; None: no limit."""
    if config.positions == "relative":
        return None
    return config.max_positions if config.positions == "learned" else max(config.max_positions, _POSITIONS)


def misfit(config: TranslatorConfig) -> str | None:
    """Why CTranslate2 does not support this model; None if it does."""
    if not isinstance(config, EncoderDecoderConfig):
        return "a recurrent translation model, and CTranslate2 supports Transformers only"
    if config.window is not None:
        return "a Transformer with a window on self-attention, which CTranslate2 does not support"
    if config.head_dim is not None and config.head_dim * config.num_heads != config.hidden_dim:
        return "a Transformer whose heads do not add up to its width, which CTranslate2 does not support"
    return None


def save_ctranslate2(
    folder: Path,
    config: EncoderDecoderConfig,
    weights: Weights,
    pieces: tuple[Pieces, Pieces],
    ids: dict[str, int],
    int8: bool = False,
) -> None:
    """Writes a CTranslate2 folder; ``pieces`` are the tokenizers of source and target."""
    spec = _specification(config, weights, pieces, ids)
    spec.optimize(quantization="int8" if int8 else "float32")
    spec.save(str(folder))


def _specification(
    config: EncoderDecoderConfig, weights: Weights, pieces: tuple[Pieces, Pieces], ids: dict[str, int]
) -> "TransformerSpec":
    """The model as CTranslate2 describes it."""
    _ctranslate2()
    from ctranslate2.specs import TransformerSpec, common_spec

    assert misfit(config) is None
    spec = TransformerSpec.from_config(
        (config.num_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_first,
        activation=getattr(common_spec.Activation, _ACTIVATIONS[config.activation]),
        relative_attention_bias=config.positions == "relative",
        ffn_glu=config.gated,
        rms_norm=config.norm == "rms",
    )
    _Filling(config, weights).fill(spec)
    names = token_names(config, *pieces)
    spec.register_source_vocabulary(names[0])
    spec.register_target_vocabulary(names[1])
    unknown = pieces[1].unk_id
    spec.config.unk_token = names[1][ids["start_id"] if unknown is None else unknown]
    spec.config.bos_token = spec.config.decoder_start_token = names[1][ids["start_id"]]
    spec.config.eos_token = names[1][ids["eos_id"]]
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    return spec


def _vocab_sizes(config: EncoderDecoderConfig) -> tuple[int, int]:
    return config.vocab_size, config.target_vocab_size or config.vocab_size


def _token_names(pieces: Pieces, size: int) -> list[str]:
    """A token for each row of an embedding table, unused rows included."""
    return [pieces.token(number) or f"<unused_{number}>" for number in range(size)]


def token_names(config: EncoderDecoderConfig, pieces: Pieces, target_pieces: Pieces) -> tuple[list[str], list[str]]:
    """The tokens of source and target, in the order of their ids."""
    source, target = _vocab_sizes(config)
    return _token_names(pieces, source), _token_names(target_pieces, target)


class _Filling:
    """Copies weights into a model specification of CTranslate2."""

    def __init__(self, config: EncoderDecoderConfig, weights: Weights) -> None:
        self.config = config
        self.weights = {name: tensor.detach().float().numpy() for name, tensor in weights.items()}

    def fill(self, spec: "TransformerSpec") -> None:
        config, own = self.config, self.weights
        target = own.get("target_tokens.weight", own["tokens.weight"])
        self._side(spec.encoder, "encoder", spec.encoder.embeddings[0], own["tokens.weight"])
        self._side(spec.decoder, "decoder", spec.decoder.embeddings, target)
        spec.decoder.projection.weight = own.get("output.weight", target)
        if config.output_bias:
            spec.decoder.projection.bias = own["output_bias"]
        if config.output_scale != 1.0:
            spec.decoder.scale_outputs = config.output_scale

    def _side(
        self,
        spec: "TransformerEncoderSpec | TransformerDecoderSpec",
        side: str,
        embeddings: "EmbeddingsSpec",
        table: NDArray[np.float32],
    ) -> None:
        config = self.config
        embeddings.weight = table
        spec.scale_embeddings = float(config.embedding_scale or config.hidden_dim**0.5)
        if config.positions != "relative":
            spec.position_encodings.encodings = self._positions(side)
        if config.norm_first:
            self._norm(spec.layer_norm, f"{side}_norm")
        for number, layer in enumerate(spec.layer):
            name = f"{side}_blocks.{number}"
            self._attention(layer.self_attention, [f"{name}.attention.qkv", f"{name}.attention.out"])
            self._norm(layer.self_attention.layer_norm, f"{name}.attention_norm")
            if config.positions == "relative":
                layer.self_attention.relative_attention_bias = self.weights[f"{side}_relative.weight"]
                layer.self_attention.relative_attention_max_distance = np.dtype("int32").type(_MAX_DISTANCE)
            if side == "decoder":
                self._attention(layer.attention, [f"{name}.cross.{part}" for part in ("query", "kv", "out")])
                self._norm(layer.attention.layer_norm, f"{name}.cross_norm")
            self._feed_forward(layer.ffn, f"{name}.ffn")
            self._norm(layer.ffn.layer_norm, f"{name}.ffn_norm")

    def _positions(self, side: str) -> NDArray[np.float32]:
        learned = self.weights.get(f"{side}_positions.learned.weight")
        size = num_positions(self.config)
        assert size is not None
        if learned is not None:
            return learned
        fixed = PositionTable(self.config.replace(max_positions=size)).fixed
        return np.zeros((size, self.config.hidden_dim), np.float32) if fixed is None else fixed.numpy()

    def _attention(self, spec: "MultiHeadAttentionSpec", names: list[str]) -> None:
        for linear, name in zip(spec.linear, names, strict=True):
            self._linear(linear, name)

    def _linear(self, spec: "LinearSpec", name: str) -> None:
        spec.weight = self.weights[f"{name}.weight"]
        if self.config.bias:
            spec.bias = self.weights[f"{name}.bias"]

    def _feed_forward(self, spec: "FeedForwardSpec", name: str) -> None:
        self._linear(spec.linear_1, f"{name}.outer")
        if not self.config.gated:
            self._linear(spec.linear_0, f"{name}.inner")
            return
        for part, half in ((spec.linear_0, 0), (spec.linear_0_noact, 1)):  # the gate, and what it multiplies
            part.weight = np.split(self.weights[f"{name}.inner.weight"], 2)[half]
            if self.config.bias:
                part.bias = np.split(self.weights[f"{name}.inner.bias"], 2)[half]

    def _norm(self, spec: "LayerNormSpec", name: str) -> None:
        spec.gamma = self.weights[f"{name}.weight"]
        if self.config.norm == "layer":
            spec.beta = self.weights.get(f"{name}.bias", np.zeros_like(spec.gamma))


_COMPARED = 200  # held-out sentences


def export_ctranslate2(
    source: Path, out: Path, int8: bool = False, verify: bool = False, data: Path | None = None
) -> Run:
    """Writes a CTranslate2 folder, complete or not at all. ``verify`` translates held-out sentences, or the lines of ``data``,
    with both models."""
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    has_config = (source / "config.json").is_file()
    kind = str(read_json(source / "config.json").get("model_type")) if has_config else ""
    spec = spec_of_model_type(kind)
    if spec is None or not (spec.translator or spec.translator_format):
        raise FirthError(
            f"{source}: not a translation model, and CTranslate2 needs one: name a run of transformer-tiny"
        )
    run = Run.find(source)
    if run is not None and run.record.kind == "write":
        raise FirthError(
            f"{source}: a run of firth finetune write, whose prefix and limits CTranslate2 cannot store; it needs a run of firth pretrain"
        )
    config, weights, ids, pieces, target_pieces, languages = load_translator(source)
    reason = misfit(config)
    if reason is not None:
        raise FirthError(f"{source}: {reason}")
    assert isinstance(config, EncoderDecoderConfig)
    texts = _texts(source, data) if verify or data is not None else []
    with atomic_folder(out) as folder:
        save_ctranslate2(folder, config, weights, (pieces, target_pieces), ids, int8)
        pieces.save(folder)
        if target_pieces is not pieces:
            (folder / "target").mkdir()
            target_pieces.save(folder / "target")
        export = ExportRecord(source=str(source.absolute()), int8=int8, ids=ids, languages=tuple(languages))
        exported = Run(
            folder, _record(source, kind, config, sum(tensor.numel() for tensor in weights.values()), export)
        )
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        exported.save(checksums={str(path.relative_to(folder)): checksum(path) for path in files})
        if texts:
            network = EncoderDecoder(config)
            model = TranslationModel(network, weights, ids, pieces, target_pieces, languages, source)
            original = model.translate(texts)
            found = load_ctranslate2(folder).translate(texts)
            equal = sum(one == two for one, two in zip(original, found, strict=True))
            exported.save(export=export.replace(verified=TranslationCheck(translations=len(texts), equal=equal)))
    return Run.open(out)


def _texts(source: Path, data: Path | None) -> list[str]:
    """Sentences for the comparison: the lines of a file, or held-out sentences of the run's corpus."""
    if data is not None:
        lines = [line.strip() for one in find_sources([str(data)]) for _, line in numbered_lines(one, "utf-8")]
        return [line for line in lines if line]
    run = Run.find(source)
    corpus = None if run is None else run.record.corpus
    if corpus is None or not Path(corpus.path).is_dir():
        raise FirthError(
            f"{source}: its corpus does not exist, so there are no held-out sentences: name a file with --data"
        )
    found = PairsCorpus.open(Path(corpus.path), verify=False).heldout.texts("source")[:_COMPARED]
    if not found:
        raise FirthError(f"{corpus.path}: nothing was held out; name sentences with --data")
    return found


def _record(
    source: Path, model_type: str, config: EncoderDecoderConfig, num_parameters: int, export: ExportRecord
) -> RunRecord:
    run, spec = Run.find(source), spec_of_model_type(model_type)
    assert spec is not None
    return RunRecord(
        kind="ctranslate2",
        model=spec.name if run is None else run.record.model,
        recipe="translator" if run is None else run.record.recipe,
        status="finished",
        versions=versions(),
        config=config.model_dump(mode="json"),
        corpus=None if run is None else run.record.corpus,
        parameters=num_parameters,
        export=export,
    )


def load_ctranslate2(folder: Path) -> CTranslate2Model:
    """An exported translation model; its record has the settings."""
    run = Run.open(folder)
    export = run.record.export
    if run.record.kind != "ctranslate2" or export is None:
        raise FirthError(f"{run.path}: does not describe an exported translator; export it again")
    config = EncoderDecoderConfig.build(run.record.config, run.path)
    pieces = Pieces.load(folder)
    target_pieces = Pieces.load(folder / "target") if (folder / "target").is_dir() else pieces
    reason = misfit(config)
    if reason is not None:
        raise FirthError(f"{run.path}: describes {reason}; export it again")
    names = token_names(config, pieces, target_pieces)
    if not {"start_id", "eos_id"} <= export.ids.keys() or not all(
        0 <= one < len(names[1]) for one in export.ids.values()
    ):
        raise FirthError(f"{run.path}: special tokens outside the vocabulary; export it again")
    spec = _specification(config, _empty_weights(config), (pieces, target_pieces), export.ids)
    expected = {name: one.numpy() for name, one in spec.variables().items()}
    check_translator(folder, expected, spec.config.to_dict(), names)
    found = CTranslate2Model(
        open_translator(folder),
        config,
        export.ids,
        pieces,
        target_pieces,
        list(export.languages),
        names,
        num_positions(config),
        run.record.parameters,
    )
    found.spec_name = run.record.model
    return found


def _empty_weights(config: EncoderDecoderConfig) -> Weights:
    """The names and shapes of the weights; no memory is taken for them."""
    with without_numbers():
        shapes = {name: tensor.shape for name, tensor in EncoderDecoder(config).state_dict().items()}
    size = num_positions(config)
    if size is not None:  # sinusoidal ones are written like learned ones
        for side in ("encoder", "decoder"):
            shapes[f"{side}_positions.learned.weight"] = torch.Size((size, config.hidden_dim))
    return {name: torch.zeros(()).expand(shape) for name, shape in shapes.items()}
