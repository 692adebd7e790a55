"use strict";
// Token selection in the plane: geometry, solve, local optima, train. Pure functions, no page.
//
// An instance is {v: [v1, v2], inputs: [{label: ±1, tokens: [{x: [x1, x2], c}]}]}. A prompt p gives
// the tokens of an input the attention softmax(x·p). The score of a token is y (v·x + c); c is its
// own part, 0 where the head is linear in x. Norms are those of ℓP, 1 < P ≤ Infinity.
window.attsvm = (() => {
  const EPS = 2 ** -52;
  // Score differences below this many units of their own size are ties.
  const TIED = 8 * EPS;
  // The relative error of a norm is below this.
  const ROUNDING = 16 * EPS;
  // A margin this close to 1, relative to its rounding, is tight.
  const TIGHT = 1e-9;
  // A gap above this is not called optimal.
  const TOL = 1e-8;

  // ---- geometry -----------------------------------------------------------------------------

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
  const det = (a, b) => a[0] * b[1] - a[1] * b[0];
  const minus = (a, b) => [a[0] - b[0], a[1] - b[1]];
  const times = (s, a) => [s * a[0], s * a[1]];
  const dual = (P) => (P === Infinity ? 1 : P / (P - 1));

  /** ‖a‖_P, without overflow on the way. */
  function norm(a, P = 2) {
    const x = Math.abs(a[0]), y = Math.abs(a[1]), most = Math.max(x, y);
    if (most === 0 || P === Infinity) return most;
    if (P === 1) return x + y;
    if (P === 2) return Math.hypot(x, y);
    return most * ((x / most) ** P + (y / most) ** P) ** (1 / P);
  }

  /** The vector of sign(a_j) |a_j|^e. */
  const power = (a, e) => a.map((x) => Math.sign(x) * Math.abs(x) ** e);

  /** The cosine of the angle between a and b; null where one of them is zero. */
  function correlation(a, b) {
    const size = norm(a) * norm(b);
    return size > 0 ? Math.max(-1, Math.min(1, dot(times(1 / norm(a), a), times(1 / norm(b), b)))) : null;
  }

  // ---- solve: least ‖p‖_P with d·p ≥ 1 for every row d ---------------------------------------

  /** The least p with d·p ≥ 1, for one row. */
  function onOne(d, P) {
    const most = norm(d, Infinity), e = times(1 / most, d), q = dual(P);
    return times(1 / (most * norm(e, q) ** q), power(e, q - 1));
  }

  /** The p with d·p = 1 for two rows; null where they are parallel. */
  function onBoth(d, e) {
    const D = det(d, e);
    return D === 0 ? null : [(e[1] - d[1]) / D, (d[0] - e[0]) / D];
  }

  const worst = (rows, p) => rows.reduce((least, d) => Math.min(least, dot(d, p)), Infinity);

  /** Rows of the largest least norm, alone or in pairs: in a strictly convex norm they decide. */
  function decisive(rows, P) {
    const alone = rows.map((d) => onOne(d, P));
    let best = { p: null, rows: [], size: -1 };
    const offer = (p, used) => {
      const size = norm(p, P);
      if (size > best.size) best = { p, rows: used, size };
    };
    alone.forEach((p, k) => offer(p, [k]));
    for (let k = 0; k < rows.length; k++)
      for (let l = k + 1; l < rows.length; l++) {
        if (dot(rows[l], alone[k]) >= 1 || dot(rows[k], alone[l]) >= 1) continue;
        const p = onBoth(rows[k], rows[l]);
        if (p) offer(p, [k, l]);
      }
    return best;
  }

  /** The vertices of {p: d·p ≥ 1} and of its cuts with |p_1| = |p_2|: one has the least max norm. */
  function decisiveMax(rows) {
    const found = [];
    rows.forEach((d, k) => {
      for (const s of [[1, 1], [1, -1], [-1, 1], [-1, -1]]) if (dot(d, s) > 0) found.push(times(1 / dot(d, s), s));
      for (let l = k + 1; l < rows.length; l++) {
        const p = onBoth(d, rows[l]);
        if (p) found.push(p);
      }
    });
    const feasible = found.filter((p) => worst(rows, p) >= 1 - TIGHT);
    const least = feasible.reduce((a, p) => (norm(p, Infinity) < norm(a, Infinity) ? p : a), feasible[0]);
    const others = feasible.filter((p) => norm(p, Infinity) <= norm(least, Infinity) * (1 + TIGHT));
    return { p: least || null, others, unique: others.every((p) => norm(minus(p, least)) <= TIGHT * norm(least)) };
  }

  /** λ ≥ 0 on the decisive rows with Σ λ d along the gradient of ‖·‖_P at p. */
  function multipliers(rows, { p, rows: used }, P) {
    if (used.length === 1) return [[used[0], 1]];
    const [d, e] = used.map((k) => rows[k]);
    const g = power(times(1 / norm(p, P), p), P - 1), D = det(d, e);
    return [[used[0], Math.max(0, det(g, e) / D)], [used[1], Math.max(0, det(d, g) / D)]];
  }

  /** λ ≥ 0 on at most two rows with the least ‖Σ λ d‖_1 / Σ λ: the dual of the max norm. */
  function multipliersMax(rows) {
    let best = { size: Infinity, weights: [] };
    const offer = (k, l, s) => {
      const size = norm([0, 1].map((j) => (1 - s) * rows[k][j] + s * rows[l][j]), 1);
      if (size < best.size) best = { size, weights: s === 0 ? [[k, 1]] : [[k, 1 - s], [l, s]] };
    };
    rows.forEach((d, k) => {
      offer(k, k, 0);
      for (let l = k + 1; l < rows.length; l++)
        for (const j of [0, 1]) {
          const s = d[j] / (d[j] - rows[l][j]); // where entry j changes its sign
          if (s > 0 && s < 1) offer(k, l, s);
        }
    });
    return best.weights;
  }

  /** Σ λ / ‖Σ λ d‖_q, rounded down: no p with d·p ≥ 1 is shorter. */
  function lowerBound(rows, weights, P) {
    let total = 0, sum = [0, 0], size = 0;
    for (const [k, w] of weights) {
      total += w;
      sum = [sum[0] + w * rows[k][0], sum[1] + w * rows[k][1]];
      size += w * norm(rows[k], 1);
    }
    return (total / (norm(sum, dual(P)) + 4 * EPS * size)) * (1 - ROUNDING);
  }

  /** Rows with λ ≥ 0 that combine to zero up to rounding, as [[row, λ], …]; null without any. */
  function farkas(rows) {
    const zero = (weights) => {
      const sum = [0, 1].map((j) => weights.reduce((s, [k, w]) => s + w * rows[k][j], 0));
      return norm(sum) <= TIED * weights.reduce((s, [k, w]) => s + w * norm(rows[k]), 0);
    };
    for (let k = 0; k < rows.length; k++) {
      if (norm(rows[k]) === 0) return [[k, 1]];
      for (let l = 0; l < k; l++) {
        const pair = [[k, norm(rows[l])], [l, norm(rows[k])]];
        if (zero(pair)) return pair;
        for (let m = 0; m < l; m++) {
          const w = [det(rows[l], rows[m]), det(rows[m], rows[k]), det(rows[k], rows[l])];
          const sizes = [norm(rows[l]) * norm(rows[m]), norm(rows[m]) * norm(rows[k]), norm(rows[k]) * norm(rows[l])];
          const three = [k, l, m].map((row, j) => [row, Math.abs(w[j])]);
          const sure = w.every((x, j) => Math.abs(x) > TIED * sizes[j]); // the signs are those of the true numbers
          if ((w.every((x) => x > 0) || w.every((x) => x < 0)) && (sure || zero(three))) return three;
        }
      }
    }
    return null;
  }

  /**
   * Least ‖p‖_P with d·p ≥ 1 for every row d, with bounds from p and from multipliers.
   *
   * status: "optimal", "infeasible" (rows that combine to zero prove it), "undecided" (no p of norm
   * below `lower`), or "empty" (no row). Bounds are rounded outward; gap = upper/lower − 1.
   */
  function solve(rows, P = 2) {
    const none = { p: null, upper: Infinity, gap: null, multipliers: [], unique: true };
    if (!rows.length) return { ...none, status: "empty", lower: 0, message: "There is no row: nothing is left to separate." };
    if (!rows.every((d) => d.every(Number.isFinite)) || !(P > 1)) return { ...none, status: "undecided", lower: 0, message: "A number is missing or not finite." };
    const zero = rows.some((d) => norm(d) === 0);
    const max = P === Infinity;
    const found = zero ? { p: null } : max ? decisiveMax(rows) : decisive(rows, P);
    const error = found.p ? TIED * Math.max(...rows.map((d) => norm(d))) * norm(found.p) : 0;
    const margin = found.p ? worst(rows, found.p) : -1;
    if (!(margin > error)) {
      const proof = farkas(rows);
      if (proof) return { ...none, status: "infeasible", lower: Infinity, multipliers: proof, message: "No p selects these tokens: rows of the problem combine to zero." };
      const lower = zero ? Infinity : lowerBound(rows, max ? multipliersMax(rows) : multipliers(rows, found, P), P);
      return { ...none, status: "undecided", lower, message: `No p of norm below ${lower.toExponential(1)} selects these tokens.` };
    }
    const weights = max ? multipliersMax(rows) : multipliers(rows, found, P);
    const p = times(1 / margin, found.p);
    const upper = (norm(p, P) * (1 + ROUNDING)) / (1 - error / margin), lower = lowerBound(rows, weights, P);
    const gap = upper / lower - 1;
    const status = gap <= TOL ? "optimal" : "undecided";
    return { status, p, upper, lower, gap, multipliers: weights, unique: found.unique ?? true, others: found.others ?? [p], message: "" };
  }

  // ---- selections: which are feasible, and which are locally optimal --------------------------

  /** y (v·(x_a − x_t) + c_a − c_t), 0 where it is a tie up to rounding. */
  function scoreGap(instance, input, a, t) {
    const { label, tokens } = instance.inputs[input], v = instance.v;
    const d = minus(tokens[a].x, tokens[t].x), c = tokens[a].c - tokens[t].c;
    const gap = label * (dot(v, d) + c);
    const size = c === 0 ? norm(d) * norm(v) : Math.hypot(norm(d), c) * Math.hypot(norm(v), 1);
    return Math.abs(gap) <= TIED * size ? 0 : gap;
  }

  const score = (instance, input, t) => {
    const { label, tokens } = instance.inputs[input];
    return label * (dot(instance.v, tokens[t].x) + tokens[t].c);
  };

  /** The rows x_kept − x_t of a selection, or of its first inputs, with the input and token of each. */
  const rowsOf = (instance, selection) =>
    selection.flatMap((kept, input) => {
      const { tokens } = instance.inputs[input];
      return tokens.flatMap((token, t) => (t === kept ? [] : [{ input, token: t, d: minus(tokens[kept].x, token.x) }]));
    });

  /** Whether one selection is global, local, neither, infeasible or undecided, and why. */
  function optimality(instance, selection, P = 2) {
    const rows = rowsOf(instance, selection), ds = rows.map((row) => row.d);
    const solution = solve(ds, P), place = ({ input, token }) => ({ input, token });
    const gaps = rows.map(({ input, token }) => scoreGap(instance, input, selection[input], token));
    const best = gaps.every((gap) => gap > 0);
    const base = { selection, rows: rows.map(place), ...solution, tight: [], against: [] };
    if (solution.status !== "optimal") return { ...base, kind: solution.status };
    const tightAt = (p) => rows.map(({ d }) => dot(d, p) - 1 <= TIGHT * Math.max(1, norm(d) * norm(p)));
    const againstAt = (p) => { const tight = tightAt(p); return rows.filter((_, k) => tight[k] && gaps[k] <= 0).map(place); };
    const tight = tightAt(solution.p), against = againstAt(solution.p);
    const found = { ...base, tight: rows.filter((_, k) => tight[k]).map(place), against };
    if (best) return { ...found, kind: "global" };
    // In the max norm several p may have the least norm, with other tight tokens.
    if (solution.others.some((p) => !againstAt(p).length !== !against.length))
      return { ...found, kind: "undecided", message: "Several p have the least norm, and not all have the same tight tokens." };
    return { ...found, kind: against.length ? "neither" : "local" };
  }

  /** The verdict on every selection, in the order of the tokens. */
  function localOptima(instance, P = 2) {
    const { inputs } = instance, found = [];
    // A prefix whose rows combine to zero proves the same of every selection that begins with it.
    const extend = (prefix, proof) => {
      if (prefix.length === inputs.length) {
        found.push(proof ? { ...proof, selection: prefix } : optimality(instance, prefix, P));
        return;
      }
      inputs[prefix.length].tokens.forEach((_, t) => {
        const next = [...prefix, t], last = next.length === inputs.length;
        const verdict = proof || last ? null : optimality(instance, next);
        extend(next, proof || (verdict && verdict.kind === "infeasible" ? verdict : null));
      });
    };
    extend([], null);
    return found;
  }

  /** The share of the best margin that p has: min d·p / ‖p‖ over 1 / least norm; null without one. */
  function marginShare(instance, verdict, p, P = 2) {
    const size = norm(p, P);
    if (!verdict.p || !(size > 0)) return null;
    const least = worst(rowsOf(instance, verdict.selection).map((row) => row.d), p);
    return Math.max(0, Math.min(1, (least / size) * verdict.lower));
  }

  // ---- train: the exact gradient of the logistic loss, its exponent kept apart ----------------

  /** The softmax of x·p over the tokens of each input. */
  function attention(instance, p) {
    return instance.inputs.map(({ tokens }) => {
      const logits = tokens.map(({ x }) => dot(x, p)), most = Math.max(...logits);
      const mass = logits.map((h) => Math.exp(h - most)), total = mass.reduce((a, b) => a + b, 0);
      return mass.map((m) => m / total);
    });
  }

  /** The token of largest attention in each input. */
  const selected = (instance, p) =>
    instance.inputs.map(({ tokens }) => tokens.reduce((a, { x }, t) => (dot(minus(x, tokens[a].x), p) > 0 ? t : a), 0));

  /** The differences of keys and scores between any two tokens of each input, as flat arrays. */
  function compile(instance) {
    const inputs = instance.inputs.map(({ tokens }, input) => {
      const T = tokens.length, dx = new Float64Array(T * T), dy = new Float64Array(T * T), gap = new Float64Array(T * T);
      for (let a = 0; a < T; a++)
        for (let t = 0; t < T; t++) {
          [dx[a * T + t], dy[a * T + t]] = minus(tokens[t].x, tokens[a].x);
          gap[a * T + t] = scoreGap(instance, input, a, t);
        }
      return { T, dx, dy, gap, score: tokens.map((_, t) => score(instance, input, t)), ahead: new Float64Array(T) };
    });
    const size = inputs.reduce((n, { T }) => n + T, 0);
    return { inputs, log: new Float64Array(size), sign: new Float64Array(size), x: new Float64Array(size), y: new Float64Array(size) };
  }

  /**
   * The gradient at p as sign·e^log entry by entry: writes out.value and out.log, (2,) each.
   *
   * With the top token a, G_t = score_a − score_t and δ = Σ s_t G_t, it is the mean over inputs of
   * Σ_t |ℓ'| s_t (G_t − δ) (x_t − x_a). Nothing in it cancels when attention saturates. A token that
   * ties with a contributes −δ, whose exponent is kept apart too.
   */
  function gradient(task, p, out) {
    let count = 0;
    for (const { T, dx, dy, gap, score: scores, ahead } of task.inputs) {
      let a = 0;
      for (let t = 1; t < T; t++) if (dx[a * T + t] * p[0] + dy[a * T + t] * p[1] > 0) a = t;
      const from = a * T;
      let lead = -Infinity, first = -Infinity; // of all others, and of those that do not tie
      for (let t = 0; t < T; t++) {
        ahead[t] = dx[from + t] * p[0] + dy[from + t] * p[1];
        if (t !== a && ahead[t] > lead) lead = ahead[t];
        if (t !== a && gap[from + t] !== 0 && ahead[t] > first) first = ahead[t];
      }
      if (first === -Infinity) continue; // all scores are equal
      let mass = 0, sum = 0;
      for (let t = 0; t < T; t++) {
        if (t === a) continue;
        mass += Math.exp(ahead[t] - lead);
        if (gap[from + t] !== 0) sum += Math.exp(ahead[t] - first) * gap[from + t];
      }
      const partition = Math.log1p(mass * Math.exp(lead));
      const delta = Math.exp(first - partition) * sum;
      const margin = scores[a] - delta;
      const slope = -(Math.max(margin, 0) + Math.log1p(Math.exp(-Math.abs(margin)))); // log |ℓ'|
      for (let t = 0; t < T; t++) {
        if (t === a) continue;
        const tie = gap[from + t] === 0, factor = tie ? -sum : gap[from + t] - delta;
        if (factor === 0) continue;
        task.log[count] = ahead[t] - partition + slope + Math.log(Math.abs(factor)) + (tie ? first - partition : 0);
        task.sign[count] = Math.sign(factor);
        task.x[count] = dx[from + t];
        task.y[count++] = dy[from + t];
      }
    }
    const mean = Math.log(task.inputs.length);
    [task.x, task.y].forEach((part, j) => {
      let most = -Infinity, value = 0;
      for (let k = 0; k < count; k++) if (part[k] !== 0 && task.log[k] > most) most = task.log[k];
      for (let k = 0; k < count; k++) if (part[k] !== 0) value += task.sign[k] * Math.exp(task.log[k] - most) * part[k];
      out.value[j] = value;
      out.log[j] = value === 0 ? -Infinity : most - mean;
    });
  }

  /** Both entries over one power of e: the gradient is e^log times this. */
  function scaled({ value, log }) {
    const most = Math.max(log[0], log[1]);
    return most === -Infinity ? [0, 0] : [0, 1].map((j) => (log[j] === -Infinity ? 0 : value[j] * Math.exp(log[j] - most)));
  }

  const plain = ({ value, log }) => [0, 1].map((j) => (log[j] === -Infinity ? 0 : value[j] * Math.exp(log[j])));

  /** The direction of the step, by optimizer; mirror descent takes it in the variable sign(p)|p|^(P−1). */
  const DIRECTIONS = {
    gd: (g) => plain(g),
    ngd: (g) => { const e = scaled(g), size = norm(e); return size > 0 ? times(1 / size, e) : e; },
    sign: (g) => g.value.map(Math.sign),
    mirror: (g) => plain(g),
    nmirror: (g, P) => { const e = scaled(g), size = norm(e, dual(P)); return size > 0 ? times(1 / size, e) : e; },
  };

  /** The exponent of the norm whose margin the optimizer is expected to maximize. */
  const normOf = ({ optimizer, P }) => (optimizer === "sign" ? Infinity : optimizer.endsWith("mirror") ? P : 2);

  /**
   * Take steps from a start. Returns p, the path (2 (steps + 1) numbers), and why it ended.
   *
   * ended: "done", "zero gradient", or "diverged" (p leaves the range of floats; the path ends before).
   */
  function train(instance, { optimizer = "ngd", P = 2, start = [0, 0], lr = 0.1, steps = 500 } = {}) {
    const task = compile(instance), toward = DIRECTIONS[optimizer], mirror = optimizer.endsWith("mirror");
    const path = new Float64Array(2 * (steps + 1)), g = { value: [0, 0], log: [0, 0] };
    let p = [...start], u = mirror ? power(p, P - 1) : p, step = 0, ended = "done";
    path.set(p);
    while (step < steps) {
      gradient(task, p, g);
      if (g.log[0] === -Infinity && g.log[1] === -Infinity) { ended = "zero gradient"; break; }
      const move = toward(g, P);
      u = [u[0] - lr * move[0], u[1] - lr * move[1]];
      const next = mirror ? power(u, 1 / (P - 1)) : u;
      if (!next.every((x) => Math.abs(x) < 1e150)) { ended = "diverged"; break; }
      p = next;
      step += 1;
      path[2 * step] = p[0];
      path[2 * step + 1] = p[1];
    }
    return { p, steps: step, path: path.subarray(0, 2 * step + 2), ended };
  }

  // ---- what is unusual about an instance, one sentence each -----------------------------------

  function remarks(instance) {
    const said = [];
    const { inputs } = instance, letter = (i) => "ABCD"[i] || String(i);
    if (inputs.every(({ tokens }) => tokens.length < 2)) said.push("Every input has one token: there is nothing to select.");
    else inputs.forEach(({ tokens }, i) => { if (tokens.length < 2) said.push(`Input ${letter(i)} has one token, which always has all the attention.`); });
    inputs.forEach(({ tokens }, i) => {
      for (let t = 0; t < tokens.length; t++)
        for (let a = 0; a < t; a++)
          if (norm(minus(tokens[a].x, tokens[t].x)) === 0) said.push(`Tokens ${letter(i)}${a} and ${letter(i)}${t} are in the same place: no p selects one of them alone.`);
    });
    if (inputs.some(({ tokens }) => tokens.length > 1) && inputs.every(({ tokens }, i) => tokens.every((_, t) => scoreGap(instance, i, 0, t) === 0)))
      said.push("The tokens of each input share one score: the gradient is zero and p stays at its start.");
    return said;
  }

  return { norm, correlation, solve, rowsOf, score, scoreGap, optimality, localOptima, marginShare, attention, selected, gradient, compile, normOf, train, remarks };
})();
