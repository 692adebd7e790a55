"""Chemical reactions in SMILES, put together from building blocks: texts for models of reactions.

Each reaction joins or changes two blocks as a textbook would: amides, esters, Suzuki couplings and
so on, with a solvent or a reagent now and then. Every string is well formed by construction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Blocks that end where the next atom is bound.
_FRONT = (
    "C",
    "CC",
    "CCC",
    "CCCC",
    "CC(C)",
    "CC(C)C",
    "COCC",
    "C1CCCCC1",
    "C1CCCC1",
    "N#CC",
    "FC(F)(F)C",
    "COC(=O)CC",
    "c1ccccc1",
    "c1ccccc1C",
    "c1ccccc1CC",
    "C=CC",
)
_ARYL = (
    "c1ccccc1",
    "Cc1ccc(cc1)",
    "Fc1ccc(cc1)",
    "Clc1ccc(cc1)",
    "COc1ccc(cc1)",
    "N#Cc1ccc(cc1)",
    "Cc1cccc(c1)",
    "Fc1cccc(c1)",
    "COc1cccc(c1)",
    "FC(F)(F)c1ccc(cc1)",
    "COC(=O)c1ccc(cc1)",
    "c1ccc2ccccc2c1",
    "c1cccnc1",
    "c1ccsc1",
    "CC(=O)c1ccc(cc1)",
    "Cc1ccc(c(F)c1)",
)
# Blocks that begin with the atom that is bound.
_AMINE = (
    "NC",
    "NCC",
    "NCCC",
    "NC(C)C",
    "NCc1ccccc1",
    "NCCc1ccccc1",
    "NC1CCCCC1",
    "NC1CC1",
    "NCCO",
    "NCCOC",
    "NCC#N",
    "NCCN1CCOCC1",
    "N1CCOCC1",
    "N1CCCCC1",
    "N1CCCC1",
    "N1CCN(C)CC1",
    "Nc1ccccc1",
    "Nc1ccc(F)cc1",
    "Nc1ccc(OC)cc1",
    "Nc1cccc(Cl)c1",
    "NCc1ccc(F)cc1",
    "NCC(=O)OC",
    "NCc1ccncc1",
    "NCC1CCCO1",
)
_ALCOHOL = (
    "OC",
    "OCC",
    "OCCC",
    "OC(C)C",
    "OCCCC",
    "OCc1ccccc1",
    "OCCc1ccccc1",
    "OC1CCCCC1",
    "OCC(C)C",
    "OCCOC",
    "OCC=C",
    "OCC#C",
    "OCC(F)(F)F",
    "OC1CCOCC1",
)
_PHENOL = (
    "Oc1ccccc1",
    "Oc1ccc(C)cc1",
    "Oc1ccc(F)cc1",
    "Oc1ccc(OC)cc1",
    "Oc1cccc(Cl)c1",
    "Oc1ccccc1C=O",
)
_BORON = (
    "c1ccccc1",
    "c1ccc(C)cc1",
    "c1ccc(F)cc1",
    "c1ccc(OC)cc1",
    "c1ccc(C#N)cc1",
    "c1cccc(F)c1",
    "c1ccoc1",
    "c1cccnc1",
    "c1ccc(C(F)(F)F)cc1",
    "c1cccc(C(C)=O)c1",
)
_WITH = (
    "",
    "",
    "",
    "CN(C)C=O",
    "ClCCl",
    "C1CCOC1",
    "CO",
    "CCO",
    "CC#N",
    "CCOC(C)=O",
    "CCN(CC)CC",
    "c1ccncc1",
    "O",
    "[Na+].[OH-]",
    "O=C([O-])[O-].[K+].[K+]",
    "Cl",
)

Pick = Callable[[tuple[str, ...]], str]
Sides = tuple[list[str], str]


def _amide(pick: Pick) -> Sides:
    acid, amine = pick(_FRONT + _ARYL), pick(_AMINE)
    return [f"{acid}C(=O)O", amine], f"{acid}C(=O){amine}"


def _amide_by_chloride(pick: Pick) -> Sides:
    acid, amine = pick(_ARYL), pick(_AMINE)
    return [f"{acid}C(=O)Cl", amine], f"{acid}C(=O){amine}"


def _ester(pick: Pick) -> Sides:
    acid, alcohol = pick(_FRONT + _ARYL), pick(_ALCOHOL)
    return [f"{acid}C(=O)O", alcohol], f"{acid}C(=O){alcohol}"


def _hydrolysis(pick: Pick) -> Sides:
    acid, alcohol = pick(_FRONT + _ARYL), pick(_ALCOHOL[:3])
    return [f"{acid}C(=O){alcohol}", "O"], f"{acid}C(=O)O"


def _coupling(pick: Pick) -> Sides:
    front, back, leaving = pick(_ARYL), pick(_BORON), pick(("Br", "Br", "I", "Cl"))
    return [f"{front}{leaving}", f"OB(O){back}"], f"{front}-{back}"


def _amination(pick: Pick) -> Sides:
    front, amine = pick(_FRONT + _ARYL), pick(_AMINE)
    return [f"{front}C=O", amine], f"{front}C{amine}"


def _sulfonamide(pick: Pick) -> Sides:
    front, amine = pick(_ARYL), pick(_AMINE)
    return [f"{front}S(=O)(=O)Cl", amine], f"{front}S(=O)(=O){amine}"


def _ether(pick: Pick) -> Sides:
    front, phenol, leaving = pick(_FRONT), pick(_PHENOL), pick(("Br", "I", "Cl"))
    return [f"{front}C{leaving}", phenol], f"{front}C{phenol}"


def _nitro(pick: Pick) -> Sides:
    front = pick(_ARYL)
    return [f"{front}[N+](=O)[O-]", pick(("[Fe]", "[Zn]", "[H][H]"))], f"{front}N"


def _reduction(pick: Pick) -> Sides:
    front, back = pick(_ARYL), pick(_FRONT[:6])
    return [f"{front}C(=O){back}", pick(("[BH4-].[Na+]", "[AlH4-].[Li+]"))], f"{front}C(O){back}"


def _deprotection(pick: Pick) -> Sides:
    amine = pick(_AMINE)
    return [f"CC(C)(C)OC(=O){amine}", pick(("O=C(O)C(F)(F)F", "Cl"))], amine


def _alkylation(pick: Pick) -> Sides:
    front, amine = pick(_FRONT), pick(_AMINE)
    return [f"{front}C{pick(('Br', 'Cl'))}", amine], f"{front}C{amine}"


_KINDS = (
    _amide,
    _amide,
    _amide_by_chloride,
    _ester,
    _hydrolysis,
    _coupling,
    _coupling,
    _amination,
    _sulfonamide,
    _ether,
    _nitro,
    _reduction,
    _deprotection,
    _alkylation,
)


def reaction_texts(count: int, seed: int = 0) -> list[str]:
    """This many reactions, no two alike, `reactants>>product`.

    >>> print(reaction_texts(2)[1])
    CC(C)CC(=O)O.CCN(CC)CC.Nc1cccc(Cl)c1>>CC(C)CC(=O)Nc1cccc(Cl)c1
    """
    rng = np.random.default_rng(seed)

    def pick(blocks: tuple[str, ...]) -> str:
        return blocks[int(rng.integers(len(blocks)))]

    found: dict[str, None] = {}
    while len(found) < count:
        left, product = _KINDS[int(rng.integers(len(_KINDS)))](pick)
        parts = [*left, *filter(None, [pick(_WITH)])]
        order = rng.permutation(len(parts))
        found[".".join(parts[k] for k in order) + ">>" + product] = None
    return list(found)
