"""Texts of JSON and TOML that no reader should choke on: huge whole numbers, deep nesting."""

import pytest

from attsvm._utils.files import parse_json, parse_toml
from attsvm.errors import BadTokens
from attsvm.experiments.runner import results_folder
from attsvm.experiments.spec import read_sweep

HUGE = "1" * 5000
TOML = {
    "digits": f"seeds = {HUGE}",
    "hex digits": f"seeds = 0x{HUGE}",
    "lists": "seeds = " + "[" * 3000 + "]" * 3000,
    "tables": "a" + ".a" * 3000 + " = 1",
}
JSON = {"digits": HUGE, "lists": "[" * 100_000 + "]" * 100_000, "names": '{"a":' * 100_000}


@pytest.mark.parametrize("case", TOML)
def test_toml_is_refused_in_one_sentence(case, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text(TOML[case])
    with pytest.raises(ValueError, match=r"digits|nested too deeply"):
        parse_toml(TOML[case])
    with pytest.raises(BadTokens, match=r"spec\.toml is no TOML file .*(digits|nested)") as said:
        read_sweep(file)
    assert len(str(said.value)) < 300


@pytest.mark.parametrize("case", JSON)
def test_json_is_refused_in_one_sentence(case, tmp_path):
    with pytest.raises(ValueError, match=r"digits|nested too deeply"):
        parse_json(JSON[case])
    (tmp_path / "attsvm.json").write_text(JSON[case])
    with pytest.raises(BadTokens, match=r"attsvm\.json cannot be read"):
        results_folder(tmp_path).open()
