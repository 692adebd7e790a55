"""Files that are no problem files, and places where no result can be written."""

import os
import pickle
import zipfile

import numpy as np
import pytest

from tests.cli.command import GENERIC, refused, save


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self):
        return open, (self.mark, "w")


def text(path):
    path.write_text("0.1 0.2 0.3\n")


def nothing(path):
    path.write_bytes(b"")


def single_array(path):
    with path.open("wb") as stream:
        np.save(stream, GENERIC)


def bare_pickle(path):
    path.write_bytes(pickle.dumps(Bomb("exploded")))


def pickled_object(path):
    np.savez(path, X=np.array([Bomb("exploded")], dtype=object))


def folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def cut(path):
    whole = save(path, X=GENERIC, alpha=[0, 1]).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def cut_inside(path):
    """The list of members is whole, the array of the only one is not."""
    member(path, header() + GENERIC.tobytes()[:-8])


def no_array(path):
    member(path, b"tokens")


def broken_header(path):
    member(path, header().replace(b"'shape'", b"'shade'"))


def negative_shape(path):
    member(path, header((-2, 3, 7)) + GENERIC.tobytes())


def broken_sum(path):
    data = bytearray(save(path, X=GENERIC).read_bytes())
    data[200] ^= 255  # inside the array: the checksum of the member no longer fits
    path.write_bytes(data)


def broken_packing(path):
    np.savez_compressed(path, X=GENERIC)
    data = bytearray(path.read_bytes())
    data[60:120] = bytes(60)
    path.write_bytes(data)


def locked(path):
    """A member that says it is encrypted."""
    data = bytearray(save(path, X=GENERIC).read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)


def header(shape: tuple[int, ...] = (2, 3, 7), descr: str = "<f8") -> bytes:
    """The first bytes of an .npy file of this shape."""
    words = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    words = words.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words


def member(path, data: bytes) -> None:
    """A zip file whose only member is X.npy with these bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", data)


UNREADABLE = (
    text, nothing, single_array, bare_pickle, pickled_object, folder, pipe, cut, cut_inside,
    no_array, broken_header, negative_shape, broken_sum, broken_packing, locked,
)  # fmt: skip


@pytest.mark.parametrize("make", UNREADABLE)
def test_a_file_that_cannot_be_read(run, tmp_path, make):
    path = tmp_path / "tokens.npz"
    make(path)
    for words in (("solve", path), ("solve", path, "--json"), ("optima", path)):
        refused(run(*words), "tokens.npz")
    good = save(tmp_path / "good.npz", X=GENERIC, alpha=[0, 1])
    refused(run("certify", good, path), "tokens.npz")
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_is_named(run, tmp_path):
    pickled_object(tmp_path / "tokens.npz")
    refused(run("solve", "tokens.npz"), "holds a pickled object")


def test_a_size_that_does_not_fit_in_memory(run, tmp_path):
    """The header claims 80 TB; the sentence says so before anything is allocated."""
    member(tmp_path / "huge.npz", header((10**9, 10**4)))
    refused(run("solve", "huge.npz"), "huge.npz would need about 1.6e+05 GB", "free")
    member(tmp_path / "text.npz", header((10**9, 10**4), "<U100"))
    refused(run("solve", "text.npz"), "GB of memory")
    # Beyond every float.
    member(tmp_path / "vast.npz", header((10**200, 10**200)))
    refused(run("solve", "vast.npz"), "vast.npz")


def test_a_missing_file(run):
    refused(run("solve", "nowhere.npz"), "nowhere.npz does not exist")
    refused(run("solve", "n" * 300), "too long")
    refused(run("solve"), "FILE")


@pytest.fixture
def good(tmp_path):
    """A file that can be solved."""
    return save(tmp_path / "good.npz", X=GENERIC, alpha=[0, 1])


@pytest.mark.parametrize("command", ["solve", "example"])
def test_results_do_not_replace_files(run, tmp_path, good, command):
    words = ("solve", good) if command == "solve" else ("example", "sphere")
    kept = tmp_path / "kept.npz"
    kept.write_text("mine")
    refused(run(*words, "--out", kept), "kept.npz exists", "--force")
    assert kept.read_text() == "mine"
    assert run(*words, "--out", kept, "--force").code == 0
    with np.load(kept, allow_pickle=False) as file:
        assert ("W" in file.files) == (command == "solve")
    assert {path.name for path in tmp_path.iterdir()} == {"good.npz", "kept.npz"}


@pytest.mark.parametrize("command", ["solve", "example"])
def test_results_need_a_folder(run, tmp_path, good, command):
    words = ("solve", good) if command == "solve" else ("example", "sphere")
    refused(run(*words, "--out", "missing/x.npz"), "folder missing does not exist")
    refused(run(*words, "--out", "good.npz/x.npz"), "good.npz")
    refused(run(*words, "--out", tmp_path), "is a folder")
    refused(run(*words, "--out", tmp_path, "--force"), "is a folder")
    refused(run(*words, "--out", "n" * 300), "too long")
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


def test_no_half_written_file_is_left(run, tmp_path, good, monkeypatch):
    def full(stream, **arrays):
        stream.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    refused(run("solve", good, "--out", "best.npz"), "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


def test_no_memory_is_one_sentence(run, good, monkeypatch):
    def none(*arguments, **options):
        raise MemoryError("Unable to allocate 8 PiB")

    monkeypatch.setattr("attsvm.solvers.solve.solve", none)
    refused(run("solve", good), "not enough memory", "8 PiB")
