"use strict";
// The map's measure, the filter by kind, and the head that is open.
(() => {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  root.classList.add("js");
  const values = JSON.parse($("measures").textContent);
  const cells = [...document.querySelectorAll("table.map td[data-head]")];
  const rows = [...document.querySelectorAll("table.heads tbody tr")];
  const articles = [...document.querySelectorAll("article.head")];
  const tiles = [...document.querySelectorAll("[data-set-kind]")];
  const short = (x) => (x === 0 ? "0" : Math.abs(x) < 0.01 ? x.toExponential(0) : String(Number(x.toPrecision(2))).replace(/^(-?)0\./, "$1."));

  const colour = () => {
    const name = $("measure").value;
    const known = cells.map((c) => values[c.dataset.head][name]).filter((x) => typeof x === "number");
    const low = Math.min(...known), high = Math.max(...known);
    for (const cell of cells) {
      const x = values[cell.dataset.head][name], link = cell.firstElementChild;
      const missing = typeof x !== "number";
      const v = missing || high === low ? 0 : (x - low) / (high - low);
      cell.classList.toggle("none", missing);
      link.style.setProperty("--v", v.toFixed(3));
      link.textContent = missing ? "–" : short(x);
    }
    $("range").textContent = known.length ? `from ${short(low)} to ${short(high)}` : "not known for these heads";
  };
  $("measure").addEventListener("input", colour);

  let kind = "";
  const filter = () => {
    let count = 0;
    for (const row of rows) {
      row.hidden = Boolean(kind) && row.dataset.kind !== kind;
      count += !row.hidden;
    }
    for (const cell of cells) cell.classList.toggle("away", Boolean(kind) && cell.dataset.kind !== kind);
    for (const tile of tiles) tile.setAttribute("aria-pressed", String(tile.dataset.setKind === kind));
    $("count").textContent = kind ? `${count} of ${rows.length} heads: ${kind}` : `${rows.length} heads`;
  };
  for (const tile of tiles) {
    tile.addEventListener("click", () => {
      kind = kind === tile.dataset.setKind ? "" : tile.dataset.setKind;
      filter();
    });
  }

  // A map that is wider than the screen says so.
  const scroller = document.querySelector(".scroll.map");
  const wide = () => document.querySelector(".swipe").style.setProperty("display", scroller.scrollWidth > scroller.clientWidth ? "block" : "none");
  addEventListener("resize", wide);

  // One head is open: the one a link names, else the sharpest.
  const open = (scroll) => {
    const wanted = articles.find((a) => a.id === location.hash.slice(1));
    const sharp = (a) => values[a.id].sharpness ?? 0;
    const shown = wanted || articles.reduce((a, b) => (sharp(b) > sharp(a) ? b : a), articles[0]);
    for (const one of articles) one.classList.toggle("open", one === shown);
    if (wanted && scroll) wanted.scrollIntoView();
  };
  addEventListener("hashchange", () => open(true));
  colour();
  filter();
  wide();
  open(Boolean(location.hash));
})();
