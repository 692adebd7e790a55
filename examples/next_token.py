"""
What a small language model will learn
======================================

What a small language model will learn, before it is trained, and what it then does.

Six animals in a made-up language: who goes first in a sentence depends on its last word. The order
of each last word is read off the sentences, its max-margin solution says how sure the model will
be, and two stages of training end there.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.next_token import orders, realizability, solve_attention
from attsvm.next_token.unseen import agreement, answer_unseen, predict_unseen

pairs = ["ant bee", "bee cat", "cat dog", "dog eel", "eel fox", "fox ant"]
lines = ["dog bee ant eel", "bee cat ant cat", "fox cat ant ant", "eel dog bee fox"]
data = attsvm.Sentences.of([line.split() for line in pairs + lines])
print(data, "realizable:", realizability(data).realizable)

found = orders(data)
E = attsvm.embedding_of(data.vocabulary)
best = solve_attention(found, E)
print(best)
for query, order in found.items():
    kinds = {data.word(x): order.kind(x) for x in range(data.vocabulary)}
    print(f"before {data.word(query)}:", ", ".join(f"{w} {kind}" for w, kind in kinds.items()))

run = attsvm.two_stages(data, steps=(1000, 2000))
number = {word: k for k, word in enumerate(data.names)}
texts = ["dog cat ant", "fox bee ant", "cat dog bee", "eel fox ant"]
unseen = [[number[word] for word in text.split()] for text in texts]
asked = predict_unseen(unseen, best.W, E, data.follows)
answered = answer_unseen(unseen, run.W_ov, run.W_kq, E)
for text, top, gap, output in zip(texts, asked.top, asked.gap, answered.output, strict=True):
    says = "a tie" if gap < 1e-9 else f"{data.word(data.follows[top])} (gap {gap:.2f})"
    print(f"{text}: theory says {says}, the model says {data.word(output)}")
seen = agreement(asked, answered)
print(f"{seen.ties} of {seen.total} are ties; {seen.agreed} of {seen.judged} wide gaps agree")

figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for axes, (query, order) in zip(panels, found.items(), strict=True):
    weights = E @ best.W @ E[query]  # what attention adds to each word before this query
    axes.bar([f"{data.word(x)}\n{order.kind(x)}" for x in range(data.vocabulary)], weights)
    axes.set_title(f"before {data.word(query)}")
    axes.tick_params(axis="x", labelrotation=60)
panels[0].set_ylabel("logit in the limit, up to scale")
plt.show()
