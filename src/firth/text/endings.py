"""Where the special tokens of a text stand."""

from tokenizers import Tokenizer, processors

from firth.text.pieces import Pieces


def with_class_last(pieces: Pieces) -> Pieces:
    """The same tokenizer, but texts end with [SEP] [CLS] and nothing stands before them (Yang et al. 2019);
    [CLS] is of segment 2."""
    assert pieces.cls_id is not None
    assert pieces.sep_id is not None
    cls, sep = pieces.token(pieces.cls_id), pieces.token(pieces.sep_id)
    backend = Tokenizer.from_str(pieces.backend.to_str())
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A:0 {sep}:0 {cls}:2",
        pair=f"$A:0 {sep}:0 $B:1 {sep}:1 {cls}:2",
        special_tokens=[(cls, pieces.cls_id), (sep, pieces.sep_id)],
    )
    return Pieces(backend)
