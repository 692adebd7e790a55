"use strict";
// The light or dark choice, kept where the browser keeps anything.
(() => {
  const $ = (id) => document.getElementById(id);
  const kept = (value) => {
    try {
      if (value) localStorage.setItem("attsvm-theme", value);
      return localStorage.getItem("attsvm-theme");
    } catch {
      return null; // the browser keeps nothing for pages opened from a disk
    }
  };
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => {
    $("theme").textContent = dark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
    $("theme").setAttribute("aria-pressed", String(dark()));
  };
  if (["dark", "light"].includes(kept())) root.dataset.theme = kept();
  $("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    kept(root.dataset.theme);
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
})();
