"""
A small language model meets its limit
======================================

Next-token training in two stages: the decoder learns what follows what, then attention learns the
order in which tokens matter. Both have a max-margin limit that the sentences alone decide, solved
here beforehand. The decoder has its direction from the first step on; attention nears its own.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.next_token import orders, realizability, solve_attention, solve_decoder

pairs = ["ant bee", "bee cat", "cat dog", "dog eel", "eel fox", "fox ant"]
lines = ["dog bee ant eel", "bee cat ant cat", "fox cat ant ant", "eel dog bee fox"]
data = attsvm.Sentences.of([line.split() for line in pairs + lines])
E = attsvm.embedding_of(data.vocabulary)
print(f"realizable: {realizability(data).realizable}")

run = attsvm.two_stages(data, steps=(2000, 4000))
stages = {
    "decoder": (run.decoder, solve_decoder(data, E)),
    "attention": (run.attention, solve_attention(orders(data), E)),
}
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, (path, best) in stages.items():
    near = attsvm.measures.correlation(path, best.W)[:, 0]
    print(f"{name}: 1 − correlation is {1 - near[-1]:.1e} after {path.steps[-1]} steps")
    axes.semilogx(path.steps[1:], near[1:], label=name)
axes.set(xlabel="step", ylabel="correlation with the limit")
axes.legend()
plt.show()
