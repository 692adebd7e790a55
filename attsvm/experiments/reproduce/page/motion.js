// Moving pictures: tracks over the frames of a slider, drawn as SVG.
(() => {
  const WIDE = 560, H = 420, LEFT = 58, RIGHT = 14, TOP = 12, FOOT = 46;
  const COLOURS = ["blue", "orange", "green", "pink", "gold", "sky", "line"].map((c) => `var(--${c})`);
  const NS = "http://www.w3.org/2000/svg";

  const make = (name, attributes = {}, text) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const tag = (name, attributes = {}, text) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const at = (list, frame) => (list.length === 1 ? list[0] : list[Math.min(frame, list.length - 1)]);
  const known = (value) => typeof value === "number";
  const digits = (value) => (known(value) ? String(Number(value.toPrecision(4))).replace("-", "−") : "not known");

  // Round numbers inside [low, high], about five of them.
  const ticks = (low, high) => {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  };

  const start = (place) => {
    const data = JSON.parse(document.getElementById(place.dataset.motion).textContent);
    const frames = data.steps.length, still = data.tracks.every((t) => t.x.length === 1 && t.y.length === 1);
    const cells = still && !data.trail;
    const id = place.dataset.motion;

    // A map of starts has the shape of its grid; paths use the whole width.
    const h = H - TOP - FOOT, extent = (list) => Math.max(...list) - Math.min(...list) || 1;
    const shape = cells ? extent(data.tracks.map((t) => t.x[0])) / extent(data.tracks.map((t) => t.y[0])) : 0;
    const w = shape > 0.5 && shape < 1.35 ? h * shape : WIDE - LEFT - RIGHT, W = w + LEFT + RIGHT;
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: "0", role: "img", style: `max-width:${W * 1.15}px` });
    const axes = make("g"), inside = make("g", { "clip-path": `url(#${id}-clip)` });
    const clip = make("clipPath", { id: `${id}-clip` });
    clip.append(make("rect", { x: LEFT, y: TOP, width: w, height: h }));
    const lines = make("g"), moving = make("g"), fixed = make("g"), ring = make("g");
    inside.append(lines, moving, fixed, ring);
    svg.append(clip, axes, inside);

    const slider = tag("input", { type: "range", min: 0, max: frames - 1, step: 1, value: frames - 1, id: `${id}-slider` });
    const label = tag("label", { for: `${id}-slider` }, "Iteration");
    const step = tag("output", { for: `${id}-slider`, class: "step" });
    const play = tag("button", { type: "button" }, "Play");
    const bar = tag("div", { class: "slider control" });
    bar.append(play, label, slider, step);
    const values = tag("p", { class: "values", role: "status", "aria-live": "polite" },
      "Point at a mark, or focus the picture and use the arrow keys, to read its values.");
    const legend = tag("ul", { class: "legend" });
    const used = new Set(data.tracks.flatMap((t) => [...t.kind]));
    data.kinds.forEach((name, k) => {
      if (!used.has(String(k))) return;
      const item = tag("li", {}, name);
      item.prepend(tag("i", { style: `background:${COLOURS[k % COLOURS.length]}`, "aria-hidden": "true" }));
      legend.append(item);
    });
    for (const name of new Set(data.lines.slice(0, 8).map(([line]) => line))) {
      const item = tag("li", {}, name);
      item.prepend(tag("i", { class: "dashed", "aria-hidden": "true" }));
      legend.append(item);
    }
    place.append(svg, legend, bar, values);

    // The window grows with the paths, so that the first steps are seen as well as the last.
    const seen = (frame) => {
      const xs = [], ys = [];
      for (const [, x, y] of data.points) { xs.push(x); ys.push(y); }
      for (const t of data.tracks) {
        for (let f = data.trail && !still ? 0 : frame; f <= frame; f++) { xs.push(at(t.x, f)); ys.push(at(t.y, f)); }
      }
      if (!data.tracks.length) for (const [, x, y] of data.lines) { xs.push(...x); ys.push(...y); }
      return [xs, ys].map((list) => {
        let low = Infinity, high = -Infinity;
        for (const v of list) if (known(v)) { low = Math.min(low, v); high = Math.max(high, v); }
        if (!(high >= low)) { low = 0; high = 1; }
        const pad = Math.max((high - low) * 0.06, Math.abs(high) * 1e-6, 1e-12) + (high === low ? 0.5 : 0);
        return [low - pad, high + pad];
      });
    };
    let toX, toY, frame = frames - 1, chosen = -1, timer = 0;
    const fit = ([[x0, x1], [y0, y1]]) => {
      const ratio = (x1 - x0) / (y1 - y0);
      if (ratio > 0.2 && ratio < 5) { // like units both ways: a direction keeps its angle
        const scale = Math.max((x1 - x0) / w, (y1 - y0) / h);
        const cx = (x0 + x1) / 2, cy = (y0 + y1) / 2;
        [x0, x1, y0, y1] = [cx - scale * w / 2, cx + scale * w / 2, cy - scale * h / 2, cy + scale * h / 2];
      }
      toX = (x) => LEFT + (x - x0) / (x1 - x0) * w;
      toY = (y) => TOP + h - (y - y0) / (y1 - y0) * h;
      axes.replaceChildren(make("rect", { x: LEFT, y: TOP, width: w, height: h, class: "frame" }));
      for (const x of ticks(x0, x1)) {
        axes.append(make("line", { x1: toX(x), x2: toX(x), y1: TOP, y2: TOP + h, class: "grid" }));
        axes.append(make("text", { x: toX(x), y: TOP + h + 16, "text-anchor": "middle" }, digits(x)));
      }
      for (const y of ticks(y0, y1)) {
        axes.append(make("line", { x1: LEFT, x2: LEFT + w, y1: toY(y), y2: toY(y), class: "grid" }));
        axes.append(make("text", { x: LEFT - 7, y: toY(y) + 4, "text-anchor": "end" }, digits(y)));
      }
      axes.append(make("text", { x: LEFT + w / 2, y: H - 8, "text-anchor": "middle", class: "name" }, data.across));
      axes.append(make("text", { x: 14, y: TOP + h / 2, "text-anchor": "middle", class: "name",
        transform: `rotate(-90 14 ${TOP + h / 2})` }, data.up));
    };

    // One shape a track, made once and moved.
    const gap = (list) => {
      const sorted = [...new Set(list)].sort((a, b) => a - b);
      let least = Infinity;
      for (let k = 1; k < sorted.length; k++) least = Math.min(least, sorted[k] - sorted[k - 1]);
      return least;
    };
    const shapes = data.tracks.map(() => {
      const trail = data.trail && !still ? make("polyline", { class: "trail" }) : null;
      const mark = make(cells ? "rect" : "circle", cells ? {} : { r: data.tracks.length > 200 ? 2.5 : 4 });
      if (trail) moving.append(trail);
      return { trail, mark };
    });
    moving.append(...shapes.map((s) => s.mark));
    const dx = cells ? gap(data.tracks.map((t) => t.x[0])) : 0, dy = cells ? gap(data.tracks.map((t) => t.y[0])) : 0;

    const read = () => {
      ring.replaceChildren();
      if (chosen < 0) return;
      const t = data.tracks[chosen], x = at(t.x, frame), y = at(t.y, frame);
      values.textContent = `${t.name}: ${data.across} ${digits(x)}, ${data.up} ${digits(y)}, ` +
        `${data.kinds[Number(at(t.kind, frame))] ?? ""} at iteration ${data.steps[frame]}`;
      if (known(x) && known(y)) ring.append(make("circle", { cx: toX(x), cy: toY(y), r: 8, class: "ring" }));
    };
    const draw = (next) => {
      frame = next;
      slider.value = String(frame);
      step.textContent = `step ${data.steps[frame].toLocaleString("en")}`;
      slider.setAttribute("aria-valuetext", step.textContent);
      svg.setAttribute("aria-label", `${data.title}, at iteration ${data.steps[frame]}`);
      if (!cells || !toX) fit(seen(frame));
      data.tracks.forEach((t, k) => {
        const { trail, mark } = shapes[k], colour = COLOURS[Number(at(t.kind, frame)) % COLOURS.length] || "var(--quiet)";
        const x = at(t.x, frame), y = at(t.y, frame), there = known(x) && known(y);
        mark.style.fill = colour;
        mark.style.display = there ? "" : "none";
        if (there && cells) {
          const a = Number.isFinite(dx) ? Math.abs(toX(x + dx) - toX(x)) * 0.94 : 9, b = Number.isFinite(dy) ? Math.abs(toY(y + dy) - toY(y)) * 0.94 : 9;
          for (const [key, value] of [["x", toX(x) - a / 2], ["y", toY(y) - b / 2], ["width", a], ["height", b]]) mark.setAttribute(key, value.toFixed(2));
        } else if (there) {
          mark.setAttribute("cx", toX(x).toFixed(2));
          mark.setAttribute("cy", toY(y).toFixed(2));
        }
        if (trail) {
          const past = [];
          for (let f = 0; f <= frame; f++) {
            const px = at(t.x, f), py = at(t.y, f);
            if (known(px) && known(py)) past.push(`${toX(px).toFixed(2)},${toY(py).toFixed(2)}`);
          }
          trail.setAttribute("points", past.join(" "));
          trail.style.stroke = colour;
        }
      });
      lines.replaceChildren(...data.lines.map(([name, xs, ys]) => {
        const line = make("polyline", { class: "fixed", points: xs.map((x, k) => [x, ys[k]]).filter(([x, y]) => known(x) && known(y)).map(([x, y]) => `${toX(x).toFixed(2)},${toY(y).toFixed(2)}`).join(" ") });
        line.append(make("title", {}, name));
        return line;
      }));
      fixed.replaceChildren(...data.points.filter(([, x, y]) => known(x) && known(y)).flatMap(([name, x, y]) => {
        const mark = make("path", { class: "point", d: `M${toX(x)},${toY(y) - 6}l5.5,9.5h-11z` });
        mark.append(make("title", {}, name));
        return [mark, make("text", { x: toX(x) + 8, y: toY(y) + 4 }, name)];
      }));
      read();
    };

    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    slider.addEventListener("input", () => { stop(); draw(Number(slider.value)); });
    play.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (frame === frames - 1) draw(0);
      play.textContent = "Pause";
      timer = setInterval(() => { if (frame < frames - 1) draw(frame + 1); else stop(); }, 90);
    });
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const px = (event.clientX - box.left) * W / box.width, py = (event.clientY - box.top) * H / box.height;
      let best = -1, least = 30 ** 2;
      data.tracks.forEach((t, k) => {
        const x = at(t.x, frame), y = at(t.y, frame);
        if (!known(x) || !known(y)) return;
        const far = (toX(x) - px) ** 2 + (toY(y) - py) ** 2;
        if (far < least) { least = far; best = k; }
      });
      if (best !== chosen && best >= 0) { chosen = best; read(); }
    });
    const choose = (by) => { chosen = (Math.max(chosen, by > 0 ? -1 : 0) + by + data.tracks.length) % data.tracks.length; read(); };
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by && data.tracks.length) { event.preventDefault(); choose(by); }
    });
    svg.addEventListener("focus", () => { if (chosen < 0 && data.tracks.length) choose(1); });
    draw(frames - 1);
  };

  // Drawn when first seen: a page of many pictures opens at once. The still one is printed.
  const places = new Set(document.querySelectorAll("figure.moving"));
  const begin = (place) => { if (places.delete(place)) start(place); };
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watch.unobserve(entry.target); begin(entry.target); }
  }, { rootMargin: "600px" });
  for (const place of places) watch.observe(place);
  for (const button of document.querySelectorAll("button.still")) {
    button.addEventListener("click", () => {
      const stands = button.closest("article").classList.toggle("stands");
      button.setAttribute("aria-pressed", String(stands));
      button.textContent = stands ? "Moving picture" : "Still picture, all panels";
    });
  }
})();
