"""Generated sentences keep their promise: realizable sets, and sets whose ties are known."""

from collections import Counter

import numpy as np
import pytest

from attsvm import Sentences, Unsupported
from attsvm.datasets import SENTENCES
from attsvm.datasets.sentences import closed, cyclic, realizable, unconfused
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import realizability


@pytest.mark.parametrize("seed", range(50))
def test_realizable_sets_are(seed):
    lines = realizable(seed=seed)
    assert [len(line) for line in lines] == [2] * 20 + [5] * 68
    assert [x for x, _ in lines[:20]] == list(range(20))
    follows = [y for _, y in lines[:20]]
    assert sorted(follows) == list(range(20)) and all(x != y for x, y in lines[:20])
    data = Sentences.of(lines)
    assert data.size == 68  # all different
    finding = realizability(data)
    assert finding.realizable and finding.dominant, finding
    assert (data.optimal.sum(axis=1) == 1).all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [unconfused, closed])
def test_sets_inside_the_premises(make, seed):
    """Realizable, no token above and below others, none more often than the optimal one."""
    N, length = 5 + seed, 5 if make is closed else (2, 5)
    lines = make(N, length, N, seed)
    data = Sentences.of(lines, vocabulary=N)
    assert realizability(data).realizable
    found = orders(data)
    assert all("confused" not in order.kinds for order in found.values())
    assert all(max(map(words.count, words)) == words.count(best) for words, best in _pairs(data))
    if make is closed:
        known = set(map(tuple, lines))
        assert all(tuple(line[:k]) in known for line in lines for k in range(2, len(line)))
    else:
        assert data.size == N and {len(line) for line in lines[N:]} <= {3, 4, 5, 6}
        several = [sum(order.kinds == "optimal") > 1 for order in found.values()]
        assert any(several) or N < 8


def _pairs(data):
    """(its tokens, its optimal token) of each sentence."""
    return [
        (data.words[s, : data.lengths[s]].tolist(), int(data.words[s, data.optimal[s].argmax()]))
        for s in range(data.size)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_cyclic_sets_have_ties_at_every_query(seed):
    lines = cyclic(seed=seed)
    data = Sentences.of(lines)
    finding = realizability(data)
    told = {kind for kind, number in finding.counts.items() if number}
    assert told == {"contradiction", "cycle"}
    found = orders(data)
    assert len(found) == 20 and not any(order.acyclic for order in found.values())
    # Every context with ties has all its optimal tokens in one component.
    labels: dict[int, list[int]] = {}
    for s in range(data.size):
        labels.setdefault(int(data.contexts[s]), []).append(s)
    assert len(labels) == 40
    for group in labels.values():
        order = found[int(data.queries[group[0]])]
        best = {int(data.words[s, data.optimal[s].argmax()]) for s in group}
        assert len(best) == len(group)
        assert len({int(order.component[order.tokens == x][0]) for x in best}) == 1
    # No component is larger than a group: three, or five where the last takes the rest.
    assert max(np.bincount(order.component).max() for order in found.values()) <= 5


def test_counts_follow_the_odds():
    """One pair of tokens, many copies: counts are copies·softmax(θ), at least one."""
    few = Counter(map(tuple, cyclic(2, 2, 1, seed=4, group=2, copies=1000, query_count=1)[2:]))
    assert len(few) == 2 and abs(sum(few.values()) - 1000) <= 1
    wild = Counter(
        map(tuple, cyclic(2, 2, 1, seed=4, group=2, copies=10, query_count=1, spread=1e3)[2:])
    )
    assert sorted(wild.values()) == [1, 10]
    even = cyclic(2, 2, 1, seed=4, group=2, copies=10, query_count=1, spread=0.0)[2:]
    assert sorted(Counter(map(tuple, even)).values()) == [5, 5]


@pytest.mark.parametrize("name", SENTENCES)
def test_seeds(name):
    make = SENTENCES[name]
    assert make(seed=3) == make(seed=3) != make(seed=4)
    assert make() == make(seed=0)
    assert all(type(token) is int for line in make() for token in line)


@pytest.mark.parametrize("make", [realizable, cyclic, unconfused])
def test_lengths_and_queries(make):
    lines = make(9, (2, 5), 30, seed=1, query_count=3)[9:]
    assert {len(line) for line in lines} == {3, 4, 5, 6}
    assert len({line[-2] for line in lines}) == 3
    assert all(len(set(line[:-1])) == len(line) - 1 for line in lines)


@pytest.mark.parametrize("make", [realizable, cyclic])
@pytest.mark.parametrize(("N", "length"), [(2, 2), (3, 2), (3, 3), (4, (2, 4)), (5, 5)])
def test_all_there_are(make, N, length):
    """Crowded sets: as many as exist, all different, and one more is refused."""
    options = {"group": 2} if make is cyclic else {}
    with pytest.raises(Unsupported, match="make at most") as refusal:
        make(N, length, 10**6, **options)
    most = int(str(refusal.value).split("at most ")[1].split()[0])
    data = Sentences.of(make(N, length, most, **options))
    if make is realizable:
        assert data.size == most and realizability(data).realizable
    else:
        assert data.contexts.max() + 1 == most and not realizability(data).realizable
    with pytest.raises(Unsupported):
        make(N, length, most + 1, **options)


def test_fixed_points_when_asked():
    some = [realizable(4, 2, 1, seed=k, fixed_points=True)[:4] for k in range(20)]
    assert any(x == y for lines in some for x, y in lines)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (realizable, {"vocabulary": 1}, "the vocabulary is 1"),
        (realizable, {"length": 1}, "length is 1"),
        (realizable, {"length": 21}, "2 to 20 different tokens"),
        (realizable, {"length": (4, 3)}, "length is"),
        (realizable, {"query_count": 0}, "query_count is 0"),
        (realizable, {"query_count": 21}, "query_count is 21"),
        (realizable, {"count": -1}, "count is -1"),
        (unconfused, {"length": 1}, "length is 1"),
        (unconfused, {"count": 10**6}, "at most"),
        (closed, {"vocabulary": 1}, "the vocabulary is 1"),
        (closed, {"length": 1}, "length 1"),
        (closed, {"count": 21}, "at most 20"),
        (cyclic, {"group": 1}, "group is 1"),
        (cyclic, {"group": 21}, "group is 21"),
        (cyclic, {"copies": 0}, "copies is 0"),
    ],
)
def test_what_cannot_be_drawn(make, options, said):
    with pytest.raises(Unsupported, match=said):
        make(**options)
