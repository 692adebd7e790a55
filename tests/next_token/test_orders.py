"""Orders: hand examples, and every part of an order against its definition."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from attsvm import Sentences
from attsvm.datasets.sentences import paper_example
from attsvm.errors import BadTokens
from attsvm.next_token.order import KINDS, Order, chains, longest_chain, orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.realizable import realizability
from attsvm.next_token.unseen import predict_unseen

Q = 9  # the query of the hand examples: never optimal, so below every optimal token


def of(edges, k):
    """An Order with these edges between k tokens, each made by the sentence of its place."""
    edges = sorted(set(edges))
    present = sorted({i for edge in edges for i in edge})
    place = {token: at for at, token in enumerate(present)}
    hi = np.array([place[i] for i, _ in edges], np.int64)
    lo = np.array([place[j] for _, j in edges], np.int64)
    return Order(0, k, np.array(present, np.int64), hi, lo, np.arange(len(edges)))


def named(order, pairs):
    """Edges between places as edges between tokens."""
    return {(int(order.tokens[i]), int(order.tokens[j])) for i, j in zip(*pairs, strict=True)}


def brute(order):
    """reach, component sets, covers between first tokens and parts, straight from definitions."""
    k = len(order.tokens)
    reach = np.zeros((k, k), bool)
    reach[order.hi, order.lo] = True
    for via in range(k):
        reach |= reach[:, [via]] & reach[[via], :]
    same = (reach & reach.T) | np.eye(k, dtype=bool)
    first = sorted({int(np.argmax(row)) for row in same})
    above = reach & ~same
    covers = {
        (i, j)
        for i in first
        for j in first
        if above[i, j] and not any(above[i, c] and above[c, j] for c in first)
    }
    part = np.arange(k)
    for _ in range(k):
        for i, j in zip(order.hi, order.lo, strict=True):
            part[i] = part[j] = min(part[i], part[j])
    return reach, same, covers, part


def girth(order):
    """The length of a shortest cycle: the first power of the adjacency with a diagonal entry."""
    k = len(order.tokens)
    step = np.zeros((k, k), bool)
    step[order.hi, order.lo] = True
    walk = step
    for length in range(1, k + 1):
        if walk.diagonal().any():
            return length
        walk = walk.astype(int) @ step > 0
    return 0


def drawn(count):
    """Random graphs: sparse to dense, acyclic or not."""
    rng = np.random.default_rng(7)
    for trial in range(count):
        k = int(rng.integers(2, 14))
        edges = np.argwhere(rng.random((k, k)) < rng.uniform(0.02, 0.35))
        hidden = rng.permutation(k)
        keep = edges[:, 0] < edges[:, 1] if trial % 2 else edges[:, 0] != edges[:, 1]
        yield of([(int(hidden[i]), int(hidden[j])) for i, j in edges[keep]], k)


GRAPHS = list(drawn(400))


def test_the_draws_cover_what_can_happen():
    assert {girth(order) for order in GRAPHS} >= {0, 2, 3, 4, 5}
    assert any(len(order.tokens) == 0 for order in GRAPHS)
    assert any(order.parts.max(initial=0) >= 2 for order in GRAPHS)
    assert any(len(np.unique(order.component)) not in (1, len(order.tokens)) for order in GRAPHS)


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_every_part_is_as_defined(start):
    for order in GRAPHS[start : start + 100]:
        reach, same, covers, part = brute(order)
        component = order.component
        assert order.reach.dtype == bool
        assert_array_equal(order.reach, reach)
        assert_array_equal(component[:, None] == component, same)
        assert sorted(set(component)) == list(range(len(order.first)))
        assert (component[order.hi] <= component[order.lo]).all()
        assert_array_equal(order.component[order.first], np.arange(len(order.first)))
        assert all(order.first[component[i]] <= i for i in range(len(component)))
        assert order.acyclic == (girth(order) == 0)
        pairs = list(zip(*(end.tolist() for end in order.covers), strict=True))
        assert pairs == sorted(covers)
        assert_array_equal(order.parts[:, None] == order.parts, part[:, None] == part)
        assert list(dict.fromkeys(order.parts)) == list(range(order.parts.max(initial=-1) + 1))
        for i, token in enumerate(order.tokens):
            above, below = reach[:, i].any(), reach[i].any()
            expected = "confused" if above and below else "optimal" if below else "non-optimal"
            assert order.kind(token) == order.kinds[i] == expected
        for token in set(range(order.vocabulary)) - set(order.tokens.tolist()):
            assert order.kind(token) == "non-comparable"


def test_covers_and_ties_imply_every_edge_and_none_can_be_spared():
    for order in GRAPHS:
        hi, lo = order.covers
        C, component = len(order.first), order.component
        closed = order.reach[np.ix_(order.first, order.first)] & ~np.eye(C, dtype=bool)

        def closure(hi, lo, C=C, component=component):
            found = np.zeros((C, C), bool)
            found[component[hi], component[lo]] = True
            for via in range(C):
                found |= found[:, [via]] & found[[via], :]
            return found

        assert_array_equal(closure(hi, lo), closed)
        for t in range(len(hi)):
            assert not np.array_equal(closure(np.delete(hi, t), np.delete(lo, t)), closed)


def test_cycles_are_real_shortest_and_witnessed():
    for order in GRAPHS:
        tokens, sentences = order.cycle()
        assert len(tokens) == len(sentences) == len(set(tokens)) == girth(order)
        edges = list(named(order, (order.hi, order.lo)))
        made = {
            int(s): (int(order.tokens[i]), int(order.tokens[j]))
            for i, j, s in zip(order.hi, order.lo, order.witness, strict=True)
        }
        for t, (token, sentence) in enumerate(zip(tokens, sentences, strict=True)):
            edge = (token, tokens[(t + 1) % len(tokens)])
            assert edge in edges
            assert made[sentence] == edge
        assert tokens[:1] == sorted(tokens)[:1]


def test_a_long_cycle_and_one_behind_a_longer_one():
    ring = [(t, (t + 1) % 3000) for t in range(3000)]
    assert of(ring, 3000).cycle()[0] == list(range(3000))
    two = [(t, (t + 1) % 9) for t in range(9)] + [(9, 10), (10, 11), (11, 12), (12, 9), (0, 9)]
    assert of(two, 13).cycle()[0] == [9, 10, 11, 12]


def test_comparable_means_a_path_either_way():
    for order in GRAPHS[:60]:
        both = order.reach | order.reach.T
        place = {int(token): at for at, token in enumerate(order.tokens)}
        for a in range(order.vocabulary):
            for b in range(order.vocabulary):
                known = a in place and b in place
                assert order.comparable(a, b) == (known and bool(both[place[a], place[b]]))


def hand(*sentences):
    """The order of query Q when each sentence is its tokens, the first of them optimal."""
    lines = [[*tokens, Q, tokens[0]] for tokens in sentences]
    return orders(Sentences.of(lines, vocabulary=12, collocations="copy"))[Q]


def test_chain():
    order = hand((0, 1), (1, 2), (0, 2))
    assert order.tokens.tolist() == [0, 1, 2, Q]
    assert order.component.tolist() == [0, 1, 2, 3]
    assert named(order, order.covers) == {(0, 1), (1, 2), (1, Q)}
    assert order.kinds.tolist() == ["optimal", "confused", "non-optimal", "non-optimal"]
    assert order.acyclic and order.cycle() == ([], [])


def test_star():
    order = hand((3, 0, 1, 2))
    assert named(order, order.covers) == {(3, 0), (3, 1), (3, 2), (3, Q)}
    assert [order.kind(token) for token in (3, 0, Q, 7)] == [KINDS[0], KINDS[2], KINDS[2], KINDS[3]]
    assert order.witness.tolist() == [0, 0, 0, 0]


def test_diamond_without_its_implied_edge():
    order = of([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)], 4)
    assert named(order, order.covers) == {(0, 1), (0, 2), (1, 3), (2, 3)}
    assert order.reach[0, 3] and not order.reach[1, 2]
    assert not order.comparable(1, 2) and order.comparable(3, 0)


def test_two_unrelated_parts():
    order = of([(0, 2), (1, 3)], 5)
    assert order.parts.tolist() == [0, 1, 0, 1]
    assert not order.comparable(0, 3)
    assert order.kind(4) == "non-comparable"


def test_two_cycle():
    order = hand((0, 1), (1, 0))
    assert order.component.tolist() == [0, 0, 1]
    assert not order.acyclic
    assert order.cycle() == ([0, 1], [0, 1])
    assert order.kinds.tolist() == ["confused", "confused", "non-optimal"]
    assert named(order, order.covers) == {(0, Q)}
    assert order.reach[0, 0] and order.reach[1, 1] and not order.reach[2, 2]


def test_three_cycle_with_a_tail():
    order = of([(5, 0), (0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (0, 4)], 6)
    assert order.component.tolist() == [1, 1, 1, 2, 3, 0]
    assert order.cycle() == ([0, 1, 2], [0, 2, 3])
    assert named(order, order.covers) == {(5, 0), (0, 3), (3, 4)}
    assert order.kind(5) == "optimal" and order.kind(4) == "non-optimal"


def test_edges_by_hand_of_every_sort_of_sentence():
    """Several optimal tokens, none, repeated tokens, an optimal query, sentences that agree."""
    lines = [
        [0, 1, 2, 3, 8],  # 0 and 1 are followed by 8
        [2, 3, 8],  # no optimal token
        [2, 2, 3, 7],  # 2 is followed by 7
        [2, 3, 3, 7],  # the same edge again
        [4, 5, 6],  # query 5, optimal 5 itself
    ]
    data = Sentences.of(lines, vocabulary=9, collocations={0: 8, 1: 8, 2: 7, 5: 6})
    found = orders(data)
    assert list(found) == [3, 5]
    order = found[3]
    assert named(order, (order.hi, order.lo)) == {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    assert order.witness.tolist() == [0, 0, 0, 0, 2]
    assert named(found[5], (found[5].hi, found[5].lo)) == {(5, 4)}
    assert repr(order) == "Order(query 3: 4 of 9 tokens, 5 edges, acyclic)"


def test_a_query_without_an_edge_has_an_empty_order():
    data = Sentences.of([[0, 1, 2], [1, 1, 1]], vocabulary=4, collocations="copy")
    order = orders(data)[1]
    assert order.tokens.tolist() == [] and order.acyclic and order.cycle() == ([], [])
    assert order.reach.shape == (0, 0) and [len(end) for end in order.covers] == [0, 0]
    assert len(order.kinds) == len(order.parts) == len(order.component) == 0
    assert order.kind(0) == "non-comparable" and not order.comparable(0, 1)


def test_random_sentences_make_the_edges_of_their_definition():
    rng = np.random.default_rng(3)
    for _ in range(20):
        N = int(rng.integers(3, 12))
        lines = [rng.integers(0, N, rng.integers(3, 7)).tolist() for _ in range(40)]
        follows = {x: int(rng.integers(0, N)) for x in range(N) if rng.random() < 0.8}
        data = Sentences.of(lines, vocabulary=N, collocations=follows)
        first = {}
        for s in range(data.size):
            words = data.words[s, : data.lengths[s]].tolist()
            best = {w for w in words if follows.get(w) == data.labels[s]}
            for i in best:
                for j in set(words) - best:
                    first.setdefault((words[-1], i, j), s)
        found = orders(data)
        assert list(found) == sorted(set(data.queries.tolist()))
        made = {
            (query, int(order.tokens[i]), int(order.tokens[j])): int(s)
            for query, order in found.items()
            for i, j, s in zip(order.hi, order.lo, order.witness, strict=True)
        }
        assert made == first
        assert sum(len(order.hi) for order in found.values()) == len(first)
        for order in found.values():
            assert order.tokens.tolist() == sorted(
                {t for e in named(order, (order.hi, order.lo)) for t in e}
            )


@pytest.mark.parametrize("token", [-1, 12])
def test_tokens_beyond_the_vocabulary_are_refused(token):
    order = hand((0, 1))
    with pytest.raises(BadTokens, match="0…11"):
        order.kind(token)
    with pytest.raises(BadTokens, match="0…11"):
        order.comparable(0, token)


def test_example_1_of_the_paper():
    """SVOP, VOP, OPP, PSV: S >_S P; O >_O S, V; V >_V S; O >_P P; unseen SP → V, OSP → P."""
    data = Sentences.of(paper_example(), vocabulary=list("SVOP"))
    found = orders(data)
    above = {
        (data.word(q), data.word(order.tokens[i]), data.word(order.tokens[j]))
        for q, order in found.items()
        for i, j in zip(order.hi, order.lo, strict=True)
    }
    assert above == {tuple(pair) for pair in ("SSP", "OOS", "OOV", "VVS", "POP")}
    finding = realizability(data, found)
    assert finding.outside == () and finding.closed
    W = solve_attention(found, np.eye(4)).W
    asked = predict_unseen([[0, 3, -1], [2, 0, 3]], W, np.eye(4), data.follows)
    assert [data.word(y) for y in asked.label] == ["V", "P"] and not asked.tied.any()


def test_chains():
    """0 > 1 > 3, 0 > 2 > 3 with the query 4 above nothing: every cover once."""
    lines = [[0, 1, 4, 0], [0, 2, 4, 0], [1, 3, 4, 1], [2, 3, 4, 2], [3, 4, 3], [0, 3, 4, 0]]
    order = orders(Sentences.of(lines, collocations="copy"))[4]
    listed = chains(order)
    steps = {(a[0], b[0]) for chain in listed for a, b in pairwise(chain)}
    assert steps == {(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)}
    assert sum(len(chain) - 1 for chain in listed) == 5
    assert longest_chain(order) == 4 and listed[0] == [[0], [1], [3], [4]]


def test_chains_with_ties():
    """0 and 1 are tied above 2; 3 and 4 are tied alone."""
    lines = [[0, 1, 5, 0], [1, 0, 5, 1], [0, 2, 5, 0], [2, 5, 2], [3, 4, 5, 3], [4, 3, 5, 4]]
    order = orders(Sentences.of(lines, collocations="copy"))[5]
    assert [[0, 1], [2], [5]] in chains(order) and longest_chain(order) == 3
    data = Sentences.of([[0, 1, 0], [0, 1, 1]], collocations="copy")
    alone = orders(data)[1]
    assert chains(alone) == [[[0, 1]]] and longest_chain(alone) == 1
    none = orders(Sentences.of([[0, 1, 2]]))[1]
    assert chains(none) == [] and longest_chain(none) == 0
