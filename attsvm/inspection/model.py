"""TrainedModel: a transformer from a folder, or from an installed package, and its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attsvm._utils.result import Result, Summary
from attsvm.errors import Unsupported
from attsvm.inspection.checkpoints import config_of, folder_of, weights_of
from attsvm.inspection.families import FAMILIES
from attsvm.inspection.families.family import Family, check_family
from attsvm.inspection.reader import Reader, reader_of
from attsvm.inspection.transformer import Transformer


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel(Result):
    """A trained model: `transformer` holds its weights, `reader` its tokenizer.

    texts: what it reads, "prose" or "reactions": a word for `sample_texts`.

    >>> from attsvm.inspection import untrained_model
    >>> model = untrained_model()
    >>> len(model.transformer.layers), model.transformer.heads, model.texts
    (2, 2, 'prose')
    """

    name: str
    transformer: Transformer
    reader: Reader
    texts: str = "prose"

    def about(self) -> dict[str, Any]:
        """Its family and sizes, as plain entries."""
        body = self.transformer
        return {
            "family": body.family,
            "layers": len(body.layers),
            "heads": body.heads,
            "width": body.width,
            "features": body.features,
            "causal": body.causal,
        }

    def _card(self) -> Summary:
        body = self.transformer
        facts = {
            "width": body.width,
            "features": body.features,
            "positions": f"{body.longest:,}, {'learned' if body.rotary is None else 'rotary'}",
            "mask": "causal" if body.causal else "none",
            "key heads": body.groups,
        }
        sizes = f"{len(body.layers)} layers × {body.heads} attention heads"
        what = f"{self.name}: {body.family}, {sizes}"
        return Summary("TrainedModel", what, facts)


def load(model: str | Path, *, family: Family | None = None) -> TrainedModel:
    """The model of a folder, or of an installed package by name.

    A folder holds config.json, model.safetensors (or its shards) and tokenizer.json, of one of the
    families in `attsvm.inspection.families`. Names: minilm, rxnfp-pretrained, rxnfp, rxnfp-10k,
    rxnmapper. Nothing is downloaded, no package is imported, and no pickle of a folder is opened.

    family: a custom function (Config, ModelWeights) -> Transformer, for a kind of checkpoint that
    is not listed.

    >>> import attsvm
    >>> try:
    ...     load("somewhere")
    ... except attsvm.Unsupported as error:
    ...     print(str(error).partition(":")[0])
    somewhere is neither a folder nor a known model
    """
    folder, package = folder_of(model)
    config = config_of(folder, package)
    kind = str(config.entries.get("model_type"))
    if family is None and kind not in FAMILIES:
        raise Unsupported(
            f"{config.where}: model_type is {kind!r}; the known families are {', '.join(FAMILIES)}"
        )
    weights = weights_of(folder, package)
    smiles = package is not None and package.smiles
    reader = reader_of(folder, smiles=smiles)
    name = str(model) if package is not None else folder.resolve().name
    if family is None:
        transformer = FAMILIES[kind](config, weights)
    else:
        transformer = check_family(family, config, weights)
    return TrainedModel(name, transformer, reader, "reactions" if smiles else "prose")
