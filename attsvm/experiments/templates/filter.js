"use strict";
// The table's filter.
(() => {
  const $ = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");
  const rows = [...document.querySelectorAll("table.studies tbody tr")];
  const articles = new Map([...document.querySelectorAll("article.study")].map((a) => [a.dataset.study, a]));
  const form = document.querySelector("form.filter");
  const fields = ["paper", "verdict", "kind"];

  const filter = () => {
    const words = $("by-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const shown =
        words.every((word) => row.dataset.search.includes(word)) &&
        fields.every((name) => !$("by-" + name).value || row.dataset[name] === $("by-" + name).value);
      row.hidden = !shown;
      articles.get(row.dataset.study).hidden = !shown;
      count += shown;
    }
    for (const part of document.querySelectorAll("section.paper")) {
      part.hidden = !part.querySelector("article:not([hidden])");
    }
    $("count").textContent = count === rows.length ? `${count} studies` : `${count} of ${rows.length} studies`;
    $("nothing").hidden = count > 0;
    for (const button of document.querySelectorAll("[data-set-verdict]")) {
      button.setAttribute("aria-pressed", String($("by-verdict").value === button.dataset.setVerdict));
    }
  };
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-set-verdict]")) {
    button.addEventListener("click", () => {
      const field = $("by-verdict");
      field.value = field.value === button.dataset.setVerdict ? "" : button.dataset.setVerdict;
      filter();
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      $("by-text").focus();
    }
  });
  // A link to a study that the filter hides shows it.
  const reveal = () => {
    const wanted = articles.get(decodeURIComponent(location.hash.slice(1)));
    if (wanted && wanted.hidden) {
      form.reset();
      filter();
      wanted.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  filter(); // a browser may keep what was typed before a reload
})();
