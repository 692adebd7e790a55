"""The words of the reports, explained: one source for `--glossary` and for docs/glossary.md."""

from __future__ import annotations

TEXT = {
    "token": "One word or number of a text; a vocabulary is all the different ones.",
    "sentences": "Lines, or sentences of prose, of three tokens or more; distinct ones count once.",
    "label": "The last token of a sentence: what is to be predicted from those before it.",
    "queries": "A query is the token before the label: the one that asks where to look.",
    "context": "The tokens of a sentence before its label, whatever their order, and its query.",
    "vocabulary": "How many different tokens there are.",
    "collocations": "Pairs x n(x): the token n(x) follows x. They are two-token lines, a file of "
    "such lines, bigrams (what comes most often after x in this text) or copy (x itself).",
    "follower": "n(x), the token that follows x by a collocation.",
    "left out": "Words beyond --vocabulary, and lines with too few words left.",
    "skipped": "Lines, or sentences of prose, with fewer tokens than --shortest.",
    "realizable": "One order of tokens for each query explains every sentence: each has just one "
    "optimal token, no order goes round, and no two tokens share a follower.",
    "tokens by query": "How many tokens are of each kind, over the orders of all queries.",
    "optimal": "Of a sentence: a token that the label follows, where attention should look. Of an "
    "order: a token that is above others and below none.",
    "confused": "A token that is above some and below others in the order of a query.",
    "non-optimal": "A token that is below others and above none in the order of a query.",
    "non-comparable": "A token that is in no relation in the order of a query; its weight is 0.",
    "optimal tokens occur most": "Whether no non-optimal token occurs in a sentence more often "
    "than its optimal one: a premise of the theory of training, no part of realizable.",
    "paper's premises": "What the theorems on next-token training ask of sentences: realizable, a "
    "follower of each token, no confused tokens, and optimal tokens that occur most; the tokens "
    "are taken as orthonormal. Its data also hold every prefix of each sentence.",
    "order": "For one query: token a is above token b when a sentence has both and its label "
    "follows a and not b. Attention learns to look at a before b.",
    "query": "The token whose order a line of the table is about.",
    "tokens": "How many tokens the order of this query compares.",
    "edges": "How many pairs of tokens sentences compare with this query.",
    "covers": "Pairs that follow from no others: with a above b above c, the pair a c is none.",
    "chain": "The length of the longest chain a above b above c … of the order.",
    "tie": "Tokens that the data, or the solution, put at the same height.",
    "ties": "Contexts with several labels and orders that go round, and how many tokens tie.",
    "component": "Tokens that an order which goes round puts above each other: they tie.",
    "no-collocations": "A fault: no token has a known follower, so nothing can be compared.",
    "not-injective": "A fault: a token follows two others or more.",
    "no-optimal": "A fault: the label of a sentence follows none of its tokens.",
    "several-optimal": "A fault: the label of a sentence follows several of its tokens.",
    "contradiction": "A fault: one context has two labels.",
    "cycle": "A fault: the order of a query goes round, a above b above a.",
    "attention W_kq": "The attention matrix of least norm that keeps each order by a margin of 1.",
    "decoder W_ov": "The decoder matrix of least norm that puts each follower ahead by 1.",
    "generalizes": "How many of all sentences up to a length the solution decides, seen or not.",
    "decides": "One token of the sentence has the largest weight; otherwise there is a tie, and "
    "theory is silent on what training does.",
    "gap (of a sentence)": "The weight of its top token less that of the next.",
    "finite part": "Inside ties attention settles at finite log-odds between the tokens.",
    "log-odds": "The logarithm of how many times more often one label came than another.",
    "infimum": "The least loss that attention can reach; the loss tends to it from above.",
    "entropy": "What no model can know of the label given the context, in nats.",
}
RUN = {
    "selection": "The token of each input that gets the most attention, counted from 0.",
    "state": "Where the run is: undecided (attention is spread), saturated (on one token, which "
    "need not last), at a locally optimal selection (it may still leave), converges (proved), or "
    "unknown.",
    "top attention": "The most attention that the least sure input has on one token.",
    "last change": "The step after which the selection stayed the same.",
    "steps": "How many steps were taken.",
    "loss": "The mean loss at the end.",
    "excess": "The loss above its infimum.",
    "decoder loss": "The loss of the first stage at its end.",
    "top optimal": "The share of sentences whose top token is the optimal one.",
    "norm": "The size of the matrix at the end; it grows without end.",
    "log10 gradient norm": "The size of the gradient at the end, as a power of ten.",
    "correlation": "The cosine between the trained matrix and the solution: 1 is one direction.",
    "margin share": "The least margin of the trained direction over the largest possible: at "
    "most 1.",
    "predicted limit": "The norm in which this optimizer is expected to converge to the max-margin "
    "direction, and how well established that is.",
    "premises": "What the theorem asks of the data and the run, each checked on them.",
    "rank of W": "Of factors: how many singular values of K Qᵀ are above 1e-4 of the largest.",
    "certificate": "What is proved of the solution: its norm lies between two bounds.",
    "convergence": "Whether it is proved in interval arithmetic that this very run converges.",
    "proved since step": "The first recorded step from which on the proof holds.",
    "unseen sentences": "Random sentences that training did not see, and how many of them are "
    "answered as the solution says.",
    "seconds": "How long it took.",
}
PROVED = {
    "status": "optimal (the gap is closed), infeasible (proved: no solution), or stalled.",
    "message": "What is proved, in one sentence.",
    "lower": "A proved lower bound of the least norm.",
    "upper": "A proved upper bound: the norm of a matrix that keeps every margin.",
    "gap": "(upper − lower) / upper: how much is not known of the least norm.",
    "rank": "The rank of the solution.",
    "proof": "How infeasibility was proved.",
    "exact check": "Whether the bounds hold when they are computed again in fractions, without "
    "rounding.",
    "claims": "Whether the file claims no more than was found.",
    "W": "The solution: attention is softmax(X W z).",
    "tight rows": "Margins that are exactly 1 in every solution; the others are loose.",
}
SECTIONS = {
    "A text": TEXT,
    "A run": RUN,
    "A solution and its certificate": PROVED,
}


def show_glossary() -> None:
    """Print every word with what it means."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    for title, terms in SECTIONS.items():
        table = Table(
            title=title, title_justify="left", show_header=False, box=None, pad_edge=False
        )
        for term, meaning in terms.items():
            table.add_row(term, meaning)
        console.print(table)
        console.print()


def glossary_page() -> str:
    """The page docs/glossary.md."""
    parts = [
        "# Glossary\n\nThe words that reports print; `attsvm sentences --glossary` shows them, "
        "too. Letters are in\n[notation.md](notation.md).\n"
    ]
    for title, terms in SECTIONS.items():
        rows = "".join(f"| {term} | {meaning} |\n" for term, meaning in terms.items())
        parts.append(f"\n## {title}\n\n| word | meaning |\n|---|---|\n{rows}")
    return "".join(parts)
