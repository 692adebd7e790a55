// The page of the playground: state, drawing, controls. What it shows is computed by window.attsvm.
(() => {
  const A = window.attsvm;
  const $ = (id) => document.getElementById(id);
  const COLOURS = ["blue", "orange", "green", "pink", "gold", "sky"].map((name) => `var(--${name})`);
  const MOST_INPUTS = 4, MOST_TOKENS = 8;
  const MOST_ROWS = 60;
  const CELLS = 48; // starts across the disc, when regions are shaded
  const MOVING_STEPS = 2000; // steps while a point is dragged; all of them when it is put down
  const SLICE = 12; // milliseconds of shading between two frames

  // ---- state --------------------------------------------------------------------------------

  const copy = (value) => JSON.parse(JSON.stringify(value));
  const state = { preset: 0, first: null, instance: null, start: [0, 0], radius: 1, shown: null, shading: false, moving: false };
  let verdicts = [], run = null, end = null, size = 640;

  /** The radius of the disc: all tokens, the head and the start have room inside. */
  function fitted() {
    const points = [state.instance.v, ...state.instance.inputs.flatMap(({ tokens }) => tokens.map(({ x }) => x))];
    return 1.3 * Math.max(0.5, ...points.map((x) => A.norm(x)));
  }

  function settings() {
    const number = (id, least, most, other) => {
      const value = Number($(id).value);
      return $(id).value !== "" && value >= least && value <= most ? value : other;
    };
    return { optimizer: $("optimizer").value, P: number("P", 1.1, 10, 1.5), lr: number("lr", 1e-4, 100, 0.1), steps: Number($("steps").value) };
  }

  // ---- texts --------------------------------------------------------------------------------

  const known = (x) => x !== null && Number.isFinite(x);
  const signed = (text) => text.replace(/^-(0\.?0*)$/, "$1").replace(/^-/, "−");
  const fixed = (x, digits) => (known(x) ? signed(x.toFixed(digits)) : "–");
  const short = (x) => (!known(x) ? "–" : x === 0 ? "0" : signed(Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5 ? x.toExponential(1) : String(Number(x.toPrecision(5)))));
  const above = (x) => (known(x) ? (Math.ceil(x * 10 ** -Math.floor(Math.log10(x))) * 10 ** Math.floor(Math.log10(x))).toExponential(0) : "–");
  /** A correlation, cut and not rounded, so that 1 is never shown for less. */
  const cut = (x) => (known(x) ? signed((Math.trunc(x * 1e6) / 1e6).toFixed(6)) : "–");
  /** Inputs are A, B, C, D; tokens are counted from 0. */
  const letter = (input) => "ABCD"[input];
  const tokenName = (input, t) => `${letter(input)}${t}`;
  const named = (selection) => selection.map((t, i) => tokenName(i, t)).join(" ");
  const normName = (P) => (P === 2 ? "Euclidean norm" : P === Infinity ? "max norm" : `ℓ${P} norm`);
  const tokenNames = (places) => places.map(({ input, token }) => tokenName(input, token)).join(", ");
  const WORDS = { global: "yes: the highest scores", local: "yes", undecided: "undecided: tight tokens differ between solutions", empty: "nothing to separate" };
  const opposed = (v) => tokenNames(v.multipliers.map(([k]) => v.rows[k]));
  const word = (v) => ({ neither: `no: ${tokenNames(v.against)} tight, score not lower`, infeasible: `infeasible: not above ${opposed(v)} at once` })[v.kind] || WORDS[v.kind];
  const optimal = (v) => v.kind === "global" || v.kind === "local";

  // ---- geometry of the picture: prompts have their direction and a shortened length -----------

  const toScreen = ([x, y]) => [size / 2 + (x * size) / (2.16 * state.radius), size / 2 - (y * size) / (2.16 * state.radius)];
  const fromScreen = ([x, y]) => [((x - size / 2) * 2.16 * state.radius) / size, ((size / 2 - y) * 2.16 * state.radius) / size];
  const shorten = (p) => { const s = state.radius / (state.radius + A.norm(p)); return [p[0] * s, p[1] * s]; };
  const lengthen = (q) => {
    const s = state.radius / Math.max(state.radius - A.norm(q), 0.01 * state.radius);
    return [q[0] * s, q[1] * s];
  };
  const onRim = (p, share = 1) => { const s = (share * state.radius) / A.norm(p); return [p[0] * s, p[1] * s]; };

  function element(name, attributes = {}, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }
  const round = (x) => Math.round(x * 100) / 100;
  const line = (a, b, attributes) => element("line", { x1: round(a[0]), y1: round(a[1]), x2: round(b[0]), y2: round(b[1]), ...attributes });
  const polyline = (points, attributes) => element("polyline", { points: points.map((q) => q.map(round).join(",")).join(" "), ...attributes });
  function label(at, text, attributes = {}) {
    return element("text", { x: round(at[0]), y: round(at[1]), ...attributes }, text);
  }

  /** The outline of the tokens of an input, one shape per input. */
  function shape(input, r) {
    if (input % 4 === 0) return element("circle", { r, class: "mark" });
    const turns = { 1: [[-1, -1], [1, -1], [1, 1], [-1, 1]], 2: [[0, -1.35], [1.25, 0.9], [-1.25, 0.9]], 3: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]] };
    const points = turns[input % 4].map(([x, y]) => `${round(x * r * 0.92)},${round(y * r * 0.92)}`).join(" ");
    return element("polygon", { points, class: "mark" });
  }

  // ---- handles: what can be moved by mouse, touch and keys -------------------------------------

  let handles = [];

  /** A handle at get(), moved by set(point) in the plane of tokens. */
  function handle(kind, mark, get, set, says) {
    const g = element("g", { class: `handle ${kind}`, tabindex: 0, role: "button", "aria-roledescription": "point that can be moved" });
    g.append(element("circle", { r: 17, class: "reach" }), mark);
    const move = (q) => {
      const far = A.norm(q), most = 0.99 * state.radius;
      set(far > most ? [(q[0] * most) / far, (q[1] * most) / far] : q);
      schedule(kind !== "start");
    };
    const place = (event) => {
      const box = $("drawing").getBoundingClientRect();
      return fromScreen([event.clientX - box.left, event.clientY - box.top]);
    };
    let offset = null;
    g.addEventListener("pointerdown", (event) => {
      const q = place(event), at = get();
      offset = [at[0] - q[0], at[1] - q[1]];
      state.moving = true;
      g.setPointerCapture(event.pointerId);
      g.focus({ preventScroll: true });
      event.preventDefault();
    });
    g.addEventListener("pointermove", (event) => {
      if (!offset) return;
      const q = place(event);
      move([q[0] + offset[0], q[1] + offset[1]]);
    });
    for (const type of ["pointerup", "pointercancel"]) g.addEventListener(type, () => { offset = null; state.moving = false; schedule(false); });
    const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    g.addEventListener("keydown", (event) => {
      const way = KEYS[event.key];
      if (!way) return;
      const step = state.radius / (event.shiftKey ? 500 : 50), at = get();
      move([at[0] + step * way[0], at[1] + step * way[1]]);
      event.preventDefault();
    });
    return { g, get, says };
  }

  /** New handles, in the order in which Tab goes through them. */
  function makeHandles() {
    const instance = state.instance;
    handles = instance.inputs.flatMap(({ tokens }, i) => tokens.map((token, t) =>
      handle("token", shape(i, 6.5), () => token.x, (q) => { token.x = q; }, () => `Token ${tokenName(i, t)} at ${short(token.x[0])}, ${short(token.x[1])}, score ${short(A.score(instance, i, t))}`)));
    const v = () => instance.v;
    handles.push(handle("head", element("circle", { r: 6, class: "mark" }), v, (q) => { instance.v = A.norm(q) < 1e-9 ? [0, 0] : q; }, () => `Prediction head v at ${v().map(short).join(", ")}`));
    const cross = element("path", { d: "M-7 0L0 -7L7 0L0 7Z", class: "mark" });
    handles.push(handle("start", cross, () => shorten(state.start), (q) => { state.start = A.norm(q) < 1e-9 ? [0, 0] : lengthen(q); }, () => `Start p0 at ${state.start.map(short).join(", ")}`));
    const layer = $("drawing").querySelector("#handles");
    layer.replaceChildren(...handles.map(({ g }) => g));
  }

  // ---- the plane ----------------------------------------------------------------------------

  const colourOf = new Map(); // name of an optimal selection -> its colour
  const colour = (selection) => colourOf.get(named(selection)) || "var(--quiet)";

  function drawPlane() {
    const drawing = $("drawing"), layer = drawing.querySelector("#picture"), over = drawing.querySelector("#over");
    drawing.setAttribute("viewBox", `0 0 ${size} ${size}`);
    const rim = (size / 2) * (2 / 2.16), centre = [size / 2, size / 2], parts = [], texts = [];
    parts.push(line([centre[0] - rim, centre[1]], [centre[0] + rim, centre[1]], { class: "axis" }));
    parts.push(line([centre[0], centre[1] - rim], [centre[0], centre[1] + rim], { class: "axis" }));
    parts.push(element("circle", { cx: centre[0], cy: centre[1], r: rim, class: "rim" }));
    const shown = shownVerdict();
    if (shown && shown.p) parts.push(...marginLines(shown));
    const arrows = verdicts.filter((v) => v.p && (optimal(v) || v === shown)).slice(0, 40);
    for (const v of arrows) parts.push(...arrow(v, v === shown));
    if (arrows.length <= 12)
      for (const v of arrows) {
        const at = toScreen(onRim(v.p, 0.86)), d = onRim(v.p, 13 / state.radius), right = d[1] >= 0 ? 1 : -1;
        texts.push(label([at[0] + right * d[1], at[1] + right * d[0] + 4], named(v.selection), { class: "halo", "text-anchor": right * d[1] > 0 ? "start" : "end" }));
      }
    parts.push(polyline(thinned(run.path).map((p) => toScreen(shorten(p))), { class: "path" }));
    const last = toScreen(shorten(run.p));
    parts.push(element("circle", { cx: round(last[0]), cy: round(last[1]), r: 4, fill: "var(--line)" }));
    const head = toScreen(state.instance.v);
    parts.push(line(centre, head, { class: "vector" }));
    if (shown) shown.selection.forEach((t, i) => {
      const at = toScreen(state.instance.inputs[i].tokens[t].x);
      parts.push(element("circle", { cx: round(at[0]), cy: round(at[1]), r: 12, class: "ring" }));
    });
    const many = handles.length > 14 || size < 480;
    state.instance.inputs.forEach(({ tokens }, i) => tokens.forEach((token, t) => {
      const at = toScreen(token.x), name = tokenName(i, t) + (many ? "" : ` (${fixed(A.score(state.instance, i, t), 2)})`);
      texts.push(label([at[0] + 11, at[1] - 10], name, { class: "quiet halo" }));
    }));
    texts.push(label([head[0] + 10, head[1] + 4], "v", { class: "halo", "font-style": "italic" }));
    const begin = toScreen(shorten(state.start));
    texts.push(label([begin[0] + 10, begin[1] + 15], "p₀", { class: "halo", "font-style": "italic" }));
    layer.replaceChildren(...parts);
    over.replaceChildren(...texts);
    for (const { g, get, says } of handles) {
      const [x, y] = toScreen(get());
      g.setAttribute("transform", `translate(${round(x)} ${round(y)})`);
      g.setAttribute("aria-label", says());
    }
  }

  /** From the origin to the rim, with a head. */
  function arrow(v, chosen) {
    const tip = toScreen(onRim(v.p)), d = onRim(v.p, 1 / state.radius), turn = Math.atan2(-d[1], d[0]);
    const wing = (a) => [tip[0] - 12 * Math.cos(turn + a), tip[1] - 12 * Math.sin(turn + a)];
    const look = { class: chosen ? "direction shown" : "direction", style: `color: ${colour(v.selection)}` };
    return [line([size / 2, size / 2], tip, look), polyline([wing(0.4), tip, wing(-0.4)], look)];
  }

  /** For each input the line where a token is as good as the kept one, and where the margin is 1. */
  function marginLines(v) {
    const far = 4 * state.radius, along = onRim(v.p, far / state.radius), side = [-along[1], along[0]];
    const square = v.p[0] ** 2 + v.p[1] ** 2;
    return v.selection.flatMap((t, i) => {
      const { tokens } = state.instance.inputs[i];
      if (tokens.length < 2) return [];
      const kept = tokens[t].x, one = [kept[0] - v.p[0] / square, kept[1] - v.p[1] / square];
      return [[kept, "margin"], [one, "margin one"]].map(([q, name]) =>
        line(toScreen([q[0] - side[0], q[1] - side[1]]), toScreen([q[0] + side[0], q[1] + side[1]]), { class: name }));
    });
  }

  /** At most about 700 points of a path, the last one among them. */
  function thinned(path) {
    const count = path.length / 2, every = Math.max(1, Math.floor(count / 350)), points = [];
    for (let k = 0; k < count; k += k < 350 ? 1 : every) points.push([path[2 * k], path[2 * k + 1]]);
    points.push([path[2 * count - 2], path[2 * count - 1]]);
    return points;
  }

  // ---- attention over time --------------------------------------------------------------------

  function drawAttention() {
    const { path } = run, count = path.length / 2, last = Math.max(1, count - 1);
    const at = [...new Set(Array.from({ length: 120 }, (_, k) => Math.round((count - 1) * (Math.exp((k / 119) * Math.log(last + 1)) - 1) / last)))];
    const seen = at.map((k) => A.attention(state.instance, [path[2 * k], path[2 * k + 1]]));
    const room = $("attention").clientWidth, columns = Math.max(1, Math.min(state.instance.inputs.length, Math.floor(room / 230)));
    const W = Math.floor(Math.min(372, (room - 16 * (columns - 1)) / columns)), H = 140, left = 18, right = 34, top = 8, bottom = 22;
    const x = (k) => left + ((W - left - right) * Math.log(1 + k)) / Math.log(1 + last);
    const y = (s) => H - bottom - (H - top - bottom) * s;
    const figures = state.instance.inputs.map(({ tokens }, i) => {
      const final = seen[seen.length - 1][i], kept = end[i];
      const drawing = element("svg", { width: W, height: H, role: "img", "aria-label": `Attention in input ${letter(i)}: token ${tokenName(i, kept)} ends at ${fixed(final[kept], 3)}` });
      for (const s of [0, 1]) drawing.append(line([left, y(s)], [W - right, y(s)], { class: "axis" }), label([left - 6, y(s) + 4], String(s), { class: "quiet", "text-anchor": "end" }));
      tokens.forEach((_, t) => {
        const look = { class: "curve", "stroke-dasharray": ["none", "6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 4", "2 6"][t % 8] };
        if (t === kept) Object.assign(look, { style: `stroke: var(--line); stroke-width: 2.6` });
        drawing.append(polyline(at.map((k, j) => [x(k), y(seen[j][i][t])]), look));
      });
      for (const [t, place] of spread(final.map(y), 14, H - bottom + 4)) drawing.append(label([W - right + 6, place + 4], tokenName(i, t), t === kept ? {} : { class: "quiet" }));
      drawing.append(label([left, H - 5], "step 0", { class: "quiet" }), label([W - right, H - 5], String(count - 1), { class: "quiet", "text-anchor": "end" }));
      const figure = document.createElement("figure"), caption = document.createElement("figcaption");
      caption.textContent = `Input ${letter(i)}, label ${state.instance.inputs[i].label > 0 ? "+1" : "−1"}`;
      figure.append(caption, drawing);
      return figure;
    });
    $("attention").replaceChildren(...figures);
  }

  /** [index, place] of labels at these heights, pushed apart upward from the lowest. */
  function spread(heights, gap, lowest) {
    const order = heights.map((h, t) => [t, h]).sort((a, b) => b[1] - a[1]);
    let free = lowest;
    return order.map(([t, h]) => { const place = Math.min(h, free); free = place - gap; return [t, place]; });
  }

  // ---- results ------------------------------------------------------------------------------

  const shownVerdict = () => verdicts.find((v) => named(v.selection) === (state.shown || named(end))) || null;

  function drawResults() {
    const chosen = settings(), P = A.normOf(chosen), own = verdicts.find((v) => named(v.selection) === named(end));
    const shown = shownVerdict();
    const after = `After ${run.steps.toLocaleString("en")} ${run.steps === 1 ? "step" : "steps"} attention is largest on ${named(end)}. `;
    const ended = { "zero gradient": "The gradient is exactly zero: p does not move on. ", diverged: "The next step leaves the range of floats: take a smaller step size. ", done: "" }[run.ended];
    const said = {
      global: `${end.length > 1 ? "These tokens have the highest scores" : "This token has the highest score"}, so the selection is globally optimal.`,
      local: "The selection is locally optimal: every tight token has a lower score.",
      neither: `The selection is not locally optimal: ${tokenNames(own.against)} ${own.against.length > 1 ? "are" : "is"} tight with no lower score, so p may still turn.`,
      infeasible: `No direction p separates these tokens from ${opposed(own)}.`,
      undecided: own.message, empty: "",
    }[own.kind];
    $("verdict").textContent = after + ended + said;
    const c = shown && shown.p ? A.correlation(run.p, shown.p) : null;
    const facts = [
      ["compared with", shown ? `the max-margin direction of ${named(shown.selection)}` : "–"],
      ["correlation with p", A.norm(run.p) === 0 ? "p = 0 has no direction" : cut(c)],
      ["share of the best margin", shown ? cut(A.marginShare(state.instance, shown, run.p, P)) : "–"],
      ["least norm", shown && shown.p ? `${shown.upper.toPrecision(10)} (${normName(P)})` : `no p satisfies the constraints${shown && shown.kind === "infeasible" ? `: not above ${opposed(shown)} at once` : ""}`],
      ["certified gap", shown && known(shown.gap) ? `at most ${above(shown.gap)}` : "–"],
      ["p", `(${run.p.map(short).join(", ")}), norm ${short(A.norm(run.p, P))}`],
    ];
    if (shown && shown.p && !shown.unique) facts.push(["note", "Several p have the least max norm: this is the direction of one of them."]);
    $("facts").replaceChildren(...facts.flatMap(([name, value]) => {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      return [dt, dd];
    }));
    drawSelections(shown);
    const limit = LIMITS[chosen.optimizer];
    $("known").textContent = `What is known of ${chosen.optimizer} on a prompt (${limit.status}): ${limit.statement}`;
  }

  function drawSelections(shown) {
    const rank = { global: 0, local: 1, neither: 2, undecided: 3, empty: 4, infeasible: 5 };
    const none = verdicts.filter((v) => v.kind === "infeasible").length;
    const rows = [...verdicts].sort((a, b) => rank[a.kind] - rank[b.kind] || a.upper - b.upper);
    const local = rows.filter(optimal).length;
    $("count").textContent = `${verdicts.length} ${verdicts.length === 1 ? "selection" : "selections"}: ${local} locally optimal, ${none} infeasible.${rows.length > MOST_ROWS ? ` The first ${MOST_ROWS} are listed.` : ""}`;
    $("selections").replaceChildren(...rows.slice(0, MOST_ROWS).map((v) => {
      const row = document.createElement("tr"), first = document.createElement("td"), button = document.createElement("button"), swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = colour(v.selection);
      button.type = "button";
      button.dataset.selection = named(v.selection);
      button.setAttribute("aria-pressed", String(v === shown));
      button.append(swatch, named(v.selection));
      first.append(button);
      row.append(first);
      for (const [text, name] of [[v.p ? v.upper.toFixed(4) : "–", "number"], [above(v.gap), "number"], [word(v), ""]]) {
        const cell = document.createElement("td");
        cell.textContent = text;
        cell.className = name;
        row.append(cell);
      }
      return row;
    }));
  }

  // ---- regions of starts, in slices -------------------------------------------------------------

  let shade = 0; // the number of the current shading; an older one stops

  function clearGround() {
    shade += 1;
    const ground = $("ground");
    ground.width = ground.height = Math.round(size * (devicePixelRatio || 1));
    $("progress").textContent = "";
  }

  async function shadeRegions() {
    clearGround();
    const mine = shade, chosen = { ...settings() };
    chosen.steps = Math.min(chosen.steps, 500);
    const context = $("ground").getContext("2d"), ratio = $("ground").width / size, cell = size / CELLS, counts = new Map();
    const cells = [];
    for (let k = 0; k < CELLS * CELLS; k++) {
      const at = [(k % CELLS + 0.5) * cell, (Math.floor(k / CELLS) + 0.5) * cell], q = fromScreen(at);
      const far = A.norm(q) / state.radius, inside = Math.min(1, 0.985 / far); // cells on the rim start just inside it
      if (far < 1.04) cells.push([k, [q[0] * inside, q[1] * inside]]);
    }
    context.beginPath();
    context.arc($("ground").width / 2, $("ground").width / 2, $("ground").width / 2.16, 0, 2 * Math.PI);
    context.clip();
    const probe = document.createElement("span"); // its style turns a variable into a colour
    document.body.append(probe);
    const paint = (text) => { probe.style.color = text; return getComputedStyle(probe).color; };
    const colours = new Map();
    let done = 0;
    while (done < cells.length) {
      const until = performance.now() + SLICE;
      for (; done < cells.length && performance.now() < until; done++) {
        const [k, q] = cells[done], start = lengthen(q);
        const name = named(A.selected(state.instance, A.train(state.instance, { ...chosen, start }).p));
        counts.set(name, (counts.get(name) || 0) + 1);
        if (!colours.has(name)) colours.set(name, paint(colourOf.get(name) || "var(--quiet)"));
        context.globalAlpha = colourOf.has(name) ? 0.3 : 0.14;
        context.fillStyle = colours.get(name);
        const column = k % CELLS, row = Math.floor(k / CELLS);
        const [left, top, right, bottom] = [column, row, column + 1, row + 1].map((x) => Math.round(x * cell * ratio));
        context.fillRect(left, top, right - left, bottom - top);
      }
      $("progress").textContent = `Shading: ${Math.round((100 * done) / cells.length)} % of ${cells.length} starts.`;
      await new Promise((next) => requestAnimationFrame(next));
      if (mine !== shade) { probe.remove(); return; }
    }
    probe.remove();
    const shares = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([name, n]) => `${name} ${n < 0.01 * cells.length ? "below 1" : Math.round((100 * n) / cells.length)} %`);
    $("progress").textContent = `Largest attention after ${chosen.steps} steps from ${cells.length} starts: ${shares.join(", ")}${counts.size > 5 ? ", …" : ""}.${[...counts.keys()].some((name) => !colourOf.has(name)) ? " Grey: not locally optimal." : ""}`;
  }

  // ---- update: everything follows from the state -------------------------------------------------

  let pending = false, changed = false, later = 0;

  /** Compute and draw in the next frame. data: whether tokens, scores or the norm have changed. */
  function schedule(data) {
    changed = changed || data;
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; update(changed); });
  }

  function update(data) {
    changed = false;
    const chosen = settings();
    if (data) {
      verdicts = A.localOptima(state.instance, A.normOf(chosen));
      colourOf.clear();
      verdicts.filter(optimal).sort((a, b) => a.upper - b.upper).forEach((v, k) => colourOf.set(named(v.selection), COLOURS[k % COLOURS.length]));
      if (state.shown && !verdicts.some((v) => named(v.selection) === state.shown)) state.shown = null;
    }
    const steps = state.moving ? Math.min(chosen.steps, MOVING_STEPS) : chosen.steps;
    run = A.train(state.instance, { ...chosen, steps, start: state.start });
    end = A.selected(state.instance, run.p);
    const said = A.remarks(state.instance);
    if (!verdicts.some((v) => v.p) && !verdicts.some((v) => v.kind === "empty")) said.push("No selection is feasible: there is no separating direction.");
    if (A.norm(state.start) === 0) said.push("The run starts at p = 0, where attention is uniform.");
    $("remarks").replaceChildren(...said.map((text) => { const li = document.createElement("li"); li.textContent = text; return li; }));
    drawPlane();
    drawAttention();
    drawResults();
    fillEditor();
    if (data || !state.shading) {
      clearGround();
      clearTimeout(later);
      if (state.shading) later = setTimeout(shadeRegions, 250);
    }
  }

  // ---- the editor: all data as numbers --------------------------------------------------------

  function button(text, says, act) {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", textContent: text });
    made.setAttribute("aria-label", says);
    made.addEventListener("click", act);
    return made;
  }

  /** A field of a number; what is no number is put back. */
  function field(says, get, set) {
    const made = document.createElement("input");
    Object.assign(made, { type: "number", step: "any", fill: () => { if (document.activeElement !== made) made.value = String(Number(get().toPrecision(6))); } });
    made.setAttribute("aria-label", says);
    made.addEventListener("change", () => {
      const value = Number(made.value);
      if (made.value !== "" && Math.abs(value) <= 1e6) set(value);
      else made.value = String(get());
      state.radius = Math.max(state.radius, fitted());
      schedule(true);
    });
    return made;
  }

  function fillEditor() {
    for (const input of $("editor").querySelectorAll("input")) input.fill();
    for (const cell of $("editor").querySelectorAll("[data-score]")) {
      const [i, t] = cell.dataset.score.split(".").map(Number);
      cell.textContent = fixed(A.score(state.instance, i, t), 3);
    }
  }

  function makeEditor() {
    const { instance } = state;
    const sets = instance.inputs.map((input, i) => {
      const set = document.createElement("fieldset"), legend = document.createElement("legend"), table = document.createElement("table");
      const select = document.createElement("select");
      select.setAttribute("aria-label", `Label of input ${letter(i)}`);
      for (const value of [1, -1]) select.add(new Option(value > 0 ? "+1" : "−1", value, false, value === input.label));
      select.addEventListener("change", () => { input.label = Number(select.value); schedule(true); });
      legend.append(`Input ${letter(i)}, label `, select);
      const head = table.createTHead().insertRow();
      for (const text of ["token", "x₁", "x₂", "c", "score", ""]) { const th = document.createElement("th"); th.textContent = text; head.append(th); }
      const body = table.createTBody();
      input.tokens.forEach((token, t) => {
        const row = body.insertRow(), name = tokenName(i, t);
        row.insertCell().textContent = name;
        for (const j of [0, 1]) row.insertCell().append(field(`x${j + 1} of token ${name}`, () => token.x[j], (value) => { token.x = token.x.map((old, k) => (k === j ? value : old)); }));
        row.insertCell().append(field(`own score c of token ${name}`, () => token.c, (value) => { token.c = value; }));
        row.insertCell().dataset.score = `${i}.${t}`;
        row.insertCell().append(input.tokens.length > 1 ? button("✕", `Remove token ${name}`, () => { input.tokens.splice(t, 1); rebuild(); }) : "");
      });
      set.append(legend, table);
      if (input.tokens.length < MOST_TOKENS) set.append(button("Add a token", `Add a token to input ${letter(i)}`, () => { input.tokens.push({ x: randomPoint(0.6 * state.radius), c: 0 }); rebuild(); }));
      if (instance.inputs.length > 1) set.append(" ", button("Remove the input", `Remove input ${letter(i)}`, () => { instance.inputs.splice(i, 1); rebuild(); }));
      return set;
    });
    const points = [["v", "Prediction head v", () => instance.v, (x) => { instance.v = x; }], ["p₀", "Start p₀", () => state.start, (x) => { state.start = x; }]];
    const more = points.map(([name, says, get, set]) => {
      const row = document.createElement("div"), title = document.createElement("span");
      row.className = "number-row";
      title.textContent = says;
      row.append(title, ...[0, 1].map((j) => field(`entry ${j + 1} of ${name}`, () => get()[j], (value) => set(get().map((old, k) => (k === j ? value : old))))));
      return row;
    });
    if (instance.inputs.length < MOST_INPUTS) more.push(button("Add an input", "Add an input", () => { instance.inputs.push(randomInput(3, 0.6 * state.radius)); rebuild(); }));
    $("editor").replaceChildren(...sets, ...more);
  }

  /** After a change of how many tokens there are. */
  function rebuild() {
    state.shown = null;
    state.radius = Math.max(state.radius, fitted());
    makeHandles();
    makeEditor();
    schedule(true);
  }

  // ---- examples, settings, start ---------------------------------------------------------------

  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  const tidy = (x) => Math.round(100 * x) / 100;
  const randomPoint = (scale) => [tidy(scale * (2 * Math.random() - 1)), tidy(scale * (2 * Math.random() - 1))];
  const randomInput = (count, scale) => {
    const centre = [0.5 * scale * normal(), 0.5 * scale * normal()];
    return { label: Math.random() < 0.7 ? 1 : -1, tokens: Array.from({ length: count }, () => ({ x: centre.map((c) => tidy(c + 0.5 * scale * normal())), c: 0 })) };
  };
  function randomExample() {
    const inputs = Array.from({ length: 2 + Math.floor(2 * Math.random()) }, () => randomInput(2 + Math.floor(3 * Math.random()), 1));
    const turn = 2 * Math.PI * Math.random();
    return { about: "Drawn at random.", start: [0, 0], instance: { v: [tidy(Math.cos(turn)), tidy(Math.sin(turn))], inputs } };
  }

  function begin(example) {
    state.first = copy(example);
    state.instance = copy(example.instance);
    state.start = [...example.start];
    for (const [id, value] of Object.entries(example.settings || {})) $(id).value = value;
    state.radius = fitted();
    $("about").textContent = example.about;
    $("exponent").hidden = !$("optimizer").value.endsWith("mirror");
    rebuild();
  }

  function choose(k) {
    state.preset = k;
    for (const one of document.querySelectorAll("[data-preset]")) one.setAttribute("aria-pressed", String(Number(one.dataset.preset) === k));
    begin(PRESETS[k] || randomExample());
  }

  $("drawing").append(element("g", { id: "picture" }), element("g", { id: "over", "pointer-events": "none" }), element("g", { id: "handles" }));
  for (const one of document.querySelectorAll("[data-preset]")) one.addEventListener("click", () => choose(Number(one.dataset.preset)));
  $("random").addEventListener("click", () => choose(-1));
  $("again").addEventListener("click", () => begin(state.first));
  $("settings").addEventListener("submit", (event) => event.preventDefault());
  $("settings").addEventListener("input", () => {
    $("exponent").hidden = !$("optimizer").value.endsWith("mirror");
    schedule(true);
  });
  $("basins").addEventListener("click", () => {
    state.shading = !state.shading;
    $("basins").setAttribute("aria-pressed", String(state.shading));
    if (state.shading) shadeRegions();
    else clearGround();
  });
  $("selections").addEventListener("click", (event) => {
    const pressed = event.target.closest("button");
    if (!pressed) return;
    const name = pressed.dataset.selection;
    state.shown = state.shown === name ? null : name;
    update(false);
    const again = [...$("selections").querySelectorAll("button")].find((one) => one.dataset.selection === name);
    if (again) again.focus();
  });
  new ResizeObserver(() => {
    const width = $("plane").clientWidth;
    if (!width || width === size) return;
    size = width;
    if (run) { drawPlane(); drawAttention(); clearGround(); if (state.shading) shadeRegions(); }
  }).observe($("plane"));
  size = $("plane").clientWidth || size;
  choose(0);
})();
