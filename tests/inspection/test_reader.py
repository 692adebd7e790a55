"""Tokens as readers see them, and which of them are special, for the common kinds of tokenizer."""

import pytest

import attsvm
from attsvm.inspection.reader import reader_of, words_reader

tokenizers = pytest.importorskip("tokenizers")


def saved(folder, tokenizer):
    tokenizer.save(str(folder / "tokenizer.json"))
    return reader_of(folder)


def read(reader, *texts, length=None):
    return reader.encode(list(texts), length=length, longest=50)


def test_bytes_written_as_letters_are_put_back(tmp_path):
    """The tokenizer of GPT-2: every byte has a letter, and a blank is one of them."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    words = {letter: k for k, letter in enumerate(sorted(alphabet))} | {"Ġh": 256, "<end>": 257}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(words, [("Ġ", "h")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    found = read(saved(tmp_path, made), "a hi<end>")
    assert found.tokens == (("a", " h", "i", "<end>"),)
    assert found.special.tolist() == [[False, False, False, True]]
    torn = read(saved(tmp_path, made), "é").tokens[0]
    assert len(torn) == 2  # half a letter cannot be shown
    assert all(token == "\N{REPLACEMENT CHARACTER}" for token in torn)


def test_the_mark_of_a_blank_is_put_back(tmp_path):
    """The tokenizer of Llama: ▁ stands for a blank, and a first token is added."""
    words = {"<s>": 0, "<unk>": 1, "▁the": 2, "▁cat": 3}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made.add_special_tokens(["<s>", "<unk>"])
    found = read(saved(tmp_path, made), "the cat", "the dog cat")
    assert found.tokens[0] == ("<s>", " the", " cat")
    assert found.special.tolist() == [[True, False, False, False], [True, False, True, False]]
    assert found.valid.tolist() == [[True, True, True, False], [True, True, True, True]]


def test_padding_and_cutting_of_the_file_are_switched_off(tmp_path):
    reader = words_reader(["a", "b"])
    reader.tokenizer.enable_padding(length=20)
    reader.tokenizer.enable_truncation(3)
    found = read(saved(tmp_path, reader.tokenizer), "a b a b")
    assert found.ids.shape == (1, 6)
    assert found.valid.all()


def test_marks_written_in_a_text_are_special(tmp_path):
    found = read(words_reader(["a", "[", "]"]), "a [SEP] a")
    assert found.tokens[0] == ("[CLS]", "a", "[SEP]", "a", "[SEP]")
    assert found.special.tolist() == [[True, False, True, False, True]]


def test_odd_texts_are_read(tmp_path):
    odd = ["a\tb\r\na", "  a", "a\N{GRINNING FACE}", "a " * 30]
    found = read(words_reader(["a", "b"]), *odd)
    assert [len(tokens) for tokens in found.tokens] == [5, 3, 3, 32]
    with pytest.raises(attsvm.BadTokens, match="text 0 has no tokens"):
        read(words_reader(["a"]), "\N{NO-BREAK SPACE} \n")
