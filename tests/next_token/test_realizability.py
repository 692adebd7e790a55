"""Realizability: each fault in an instance built for it, and all of them counted by hand."""

import numpy as np
import pytest

from attsvm import Sentences
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import DETAILS, FAULTS, realizability


def found(lines, **options):
    """(the sentences, what is found of them), from lines of words in one text."""
    data = Sentences.of(lines.strip().splitlines(), first=1, **options)
    return data, realizability(data)


def only(finding, kind: str, number: int = 1):
    """The first fault, when all are of one kind."""
    assert finding.counts == {name: number if name == kind else 0 for name in FAULTS}
    assert not finding.realizable
    assert {fault.kind for fault in finding.reasons} == {kind}
    return finding.reasons[0]


PAIRS = "a A\nb B\nc C\nd D\n"


def test_realizable():
    _, finding = found(PAIRS + "a b c A\nb a c A\nb c B")
    assert finding.realizable and finding.dominant and finding.reasons == ()
    assert not any(finding.counts.values()) and repr(finding) == "Realizability(realizable)"


def test_a_contradiction():
    """Two labels after the same tokens and query; the third sentence is another context."""
    data, finding = found(PAIRS + "d a b A\na c b A\na d b B")
    assert finding.counts["contradiction"] == 1 and finding.counts["cycle"] == 1
    fault = next(fault for fault in finding.reasons if fault.kind == "contradiction")
    assert [data.text(s) for s in fault.sentences] == ["d a b → A", "a d b → B"]
    for word in ("line 5 (d a b → A)", "line 7 (a d b → B)", "two labels", "--ties"):
        assert word in fault.message
    _, three = found(PAIRS + "a b c A\na b c B\nb a c C\na c b A\nc b a B")
    told = [fault.message for fault in three.reasons if fault.kind == "contradiction"]
    assert len(told) == 1 and "3 labels" in told[0]


def test_counts_and_queries_are_part_of_a_context():
    """The same tokens in other numbers, or before another query, are no contradiction."""
    _, finding = found(PAIRS + "a b c A\na a b c B\nb c a C")
    assert finding.counts["contradiction"] == 0 and finding.counts["cycle"] == 1


def test_no_optimal():
    _, finding = found(PAIRS + "a b A\nd b C\nb a b")
    fault = only(finding, "no-optimal", 2)
    assert "line 6 (d b → C)" in fault.message and "which follows c" in fault.message
    assert "line 7 (b a → b)" in finding.reasons[1].message
    assert "is no token's follower" in finding.reasons[1].message


def test_several_optimal():
    """Only a map that is not injective can make two tokens optimal."""
    _, finding = found(PAIRS + "e A\na b e A\na a b A")
    assert finding.counts == {**dict.fromkeys(FAULTS, 0), "not-injective": 1, "several-optimal": 1}
    shared, several = finding.reasons
    assert shared.kind == "not-injective" and shared.sentences == ()
    assert "A follows a and e" in shared.message
    assert several.kind == "several-optimal" and several.sentences == (0,)
    assert "line 6 (a b e → A): its label follows a and e" in several.message


def test_not_injective():
    _, finding = found("a z\nb z\nc z\nd z\ne z\nf y\na f z")
    fault = only(finding, "not-injective")
    assert "z follows a, b, c, d and 1 more" in fault.message


def test_a_cycle():
    """a > b, b > c and c > a with the query d, each by one sentence."""
    data, finding = found(PAIRS + "a b d A\nb c d B\nc a d C\na b c A")
    fault = only(finding, "cycle")
    assert "query d" in fault.message and "a > b > c > a" in fault.message
    assert "by line 5, line 6, line 7" in fault.message and "--ties" in fault.message
    assert [data.where(s) for s in fault.sentences] == ["line 5", "line 6", "line 7"]


def test_no_collocations():
    _, finding = found("a b c\nb c a")
    fault = only(finding, "no-collocations")
    for word in ("two-token lines", "bigrams", "copy"):
        assert word in fault.message


def test_dominance():
    """c and d are non-optimal for the query d, below b, which is below a: Assumption 3."""
    order = "a b d A\nb c d B\n"
    assert found(PAIRS + order + "a a c c d A")[1].dominant
    _, finding = found(PAIRS + order + "a c c d A\nb b c d B\nc a a c d A")
    assert finding.realizable and not finding.dominant
    assert finding.exceptions.tolist() == [2]
    _, finding = found(PAIRS + order + "a c d d A\nc a a c c d A\nc b b d B")
    assert finding.exceptions.tolist() == [2, 3]
    # b is confused with this query: the assumption does not speak of it.
    assert found(PAIRS + order + "a b b b d A")[1].dominant


def test_premises_of_the_paper():
    """Each premise that fails is told in words; prefix closure is told apart."""
    pairs = "s v\nv o\no p\np s\n"
    closed = pairs + "s v o\ns v o p\nv o p\no p p\np s v"
    _, finding = found(closed)
    assert finding.outside == () and finding.closed
    _, finding = found(pairs + "s v o p\nv o p")
    assert finding.outside == () and not finding.closed
    assert finding.unclosed.tolist() == [0]  # s v → o is missing; v → o is a collocation
    cases = {
        pairs + "s s v o": "in 1 sentences a non-optimal token occurs more often",
        pairs + "s v o p\nv p o o\nv s o o": "confused tokens before 1 queries",
        pairs + "s v x o": "1 tokens without a follower",
        pairs + "s v o\ns v v": "not realizable: ",
    }
    for lines, said in cases.items():
        assert any(words.startswith(said) for words in found(lines)[1].outside), lines


def test_thousands_of_faults_are_counted_and_the_first_told():
    rng = np.random.default_rng(0)
    lines = [[x, x + 50] for x in range(50)]
    lines += [[*rng.permutation(50)[:4].tolist(), 99] for _ in range(3000)]
    data = Sentences.of(lines)
    wrong = int((data.optimal.sum(axis=1) == 0).sum())
    finding = realizability(data)
    assert finding.counts["no-optimal"] == wrong > 2000
    assert len(finding.reasons) == DETAILS
    assert f"{wrong} no-optimal" in repr(finding)


def test_long_sentences_and_words_are_cut():
    long = "x" * 500
    words = " ".join(f"w{k}" for k in range(300))
    _, finding = found(f"{long} y\n{words} {long} w1 z")
    message = finding.reasons[0].message
    assert len(message) < 400 and "w0 w1" in message and "…" in message


def plain(data: Sentences) -> dict[str, int]:
    """The faults counted in loops over words, from the definitions."""
    counts = dict.fromkeys(FAULTS, 0)
    follows = data.follows.tolist()
    known = [y for y in follows if y >= 0]
    counts["not-injective"] = sum(known.count(y) > 1 for y in set(known))
    labels: dict = {}
    graph: dict = {}
    for s in range(data.size):
        tokens = data.words[s, : data.lengths[s]].tolist()
        label, query = int(data.labels[s]), tokens[-1]
        best = {x for x in tokens if follows[x] == label}
        counts["no-optimal"] += not best
        counts["several-optimal"] += len(best) > 1
        labels.setdefault((tuple(sorted(tokens)), query), set()).add(label)
        edges = graph.setdefault(query, set())
        edges |= {(i, j) for i in best for j in set(tokens) - best}
    counts["contradiction"] = sum(len(seen) > 1 for seen in labels.values())
    for edges in graph.values():
        closed = set(edges)
        while True:
            more = {(i, k) for i, j in closed for j2, k in edges if j == j2} - closed
            if not more:
                break
            closed |= more
        counts["cycle"] += any(i == j for i, j in closed)
    return counts


@pytest.mark.parametrize("seed", range(30))
def test_counts_against_the_definitions(seed):
    rng = np.random.default_rng(seed)
    N = int(rng.integers(3, 7))
    follows = rng.permutation(N) if seed % 2 else rng.integers(0, N, N)
    lines = [[x, int(follows[x])] for x in range(N)]
    for _ in range(int(rng.integers(3, 25))):
        tokens = rng.integers(0, N, int(rng.integers(2, 5))).tolist()
        label = follows[rng.choice(tokens)] if rng.random() < 0.9 else rng.integers(0, N)
        lines.append([*tokens, int(label)])
    data = Sentences.of(lines)
    finding = realizability(data)
    assert finding.counts == plain(data)
    assert finding.realizable == (not any(finding.counts.values()))
    for fault in finding.reasons:
        for s in fault.sentences:
            assert data.where(s) in fault.message
        if fault.kind == "contradiction":
            first, second = fault.sentences
            assert data.contexts[first] == data.contexts[second]
            assert data.labels[first] != data.labels[second]


def test_the_orders_may_be_given():
    data = Sentences.of([[0, 1, 2, 0], [1, 0, 2, 1]], collocations="copy")
    given = realizability(data, orders(data))
    assert given.counts == realizability(data).counts and given.counts["cycle"] == 1
