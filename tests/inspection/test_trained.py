"""A head of all-MiniLM-L6-v2 that looks one token ahead or back, and what is guaranteed of it."""

import pytest

from attsvm import inspection
from attsvm.inspection.checkpoints import PACKAGES, package_folders

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def found():
    package = PACKAGES["minilm"]
    if not any(folder.is_dir() for folder in package_folders(package.package, package.folder)):
        pytest.skip(f"minilm is not installed: {package.install}")
    return inspection.inspect(
        "minilm", layers=[0], heads=[2, 7], plan=inspection.InspectionConfig.quick()
    )


def test_a_saturated_positional_head_and_a_sink(found):
    first, second = found.records
    assert first["kind"] == "positional"
    assert first["sharpness"] > 0.99
    assert second["kind"] == "sink"
    assert first["economy"] > 2 * first["economy_rotated_high"]


def test_its_guarantees_withstand_every_attack(found):
    for record in found.records:
        assert record["attacks"] > 500
        assert record["violations"] == 0
        assert record["int8_safe"] <= record["int8_same"]
