// The gallery: filters, orders, and thousands of photos of which only those in sight are made.

import { element, empty, notify, percent, request } from "./dom.js";
import { openPhoto } from "./photo.js";
import { part, state } from "./state.js";
import { tile } from "./tiles.js";

const choice = { filters: {}, order: "name", part: "", descending: false };
const GAP_ROWS = 3;

export function photosView(root) {
  if (!state.gallery) {
    root.append(empty("No folder of photos", "Start with `mpae serve RUN IMAGES` to look through photos; here, drop one."));
    return null;
  }
  const bar = element("div", { class: "bar", role: "group", "aria-label": "Filters and order" });
  const field = element("div", { class: "virtual" });
  root.append(bar, field);
  let rows = [], serial = 0, shownFrom = -1, shownTo = -1;

  async function load() {
    const mine = ++serial;
    const words = new URLSearchParams({ order: choice.order, part: choice.part, descending: choice.descending ? "1" : "0" });
    for (const kind of ["present", "absent"]) {
      words.set(kind, Object.keys(choice.filters).filter(index => choice.filters[index] === kind).join(","));
    }
    try {
      const found = await request(`/api/photos?${words}`);
      if (mine !== serial) return;
      rows = found.rows;
      shownFrom = -1;
      draw();
    } catch (error) { notify(error.message); }
  }

  function drawBar() {
    bar.replaceChildren();
    for (const each of state.parts.filter(one => !one.hidden)) {
      const now = choice.filters[each.index] || "";
      const words = { "": "any", present: "shown", absent: "hidden" }[now];
      bar.append(element("button", { type: "button", class: "chip", "data-state": now, "data-part": each.index, colour: each.colour,
        "aria-label": `${each.name}: ${words}; press to change`, title: `${each.name}: ${words}`,
        onclick: event => {
          choice.filters[each.index] = { "": "present", present: "absent", absent: "" }[now];
          drawBar(); load();
          bar.querySelector(`[data-part="${each.index}"]`)?.focus();
          event.stopPropagation();
        } }, element("span", { class: "swatch" }), each.name, element("span", { class: "mark", "aria-hidden": "true" }, { "": "", present: "✓", absent: "–" }[now])));
    }
    const order = element("select", { "aria-label": "Sort by", onchange: event => {
      choice.order = event.target.value; choice.descending = choice.order === "unusual" || choice.order === "area"; drawBar(); load(); } });
    for (const [value, text] of [["name", "Name"], ["area", "Area"], ["certainty", "Certainty"], ["unusual", "Unusual"]]) {
      order.append(element("option", { value, selected: choice.order === value }, text));
    }
    const of = element("select", { "aria-label": "Of which part", disabled: choice.order === "name", onchange: event => {
      choice.part = event.target.value; load(); } }, element("option", { value: "" }, "of any part"));
    for (const each of state.parts.filter(one => !one.hidden)) {
      of.append(element("option", { value: each.index, selected: String(each.index) === choice.part }, `of ${each.name}`));
    }
    bar.append(element("label", {}, "Sort", order), of,
      element("button", { type: "button", "aria-label": choice.descending ? "Largest first" : "Smallest first",
        onclick: () => { choice.descending = !choice.descending; drawBar(); load(); } }, choice.descending ? "↓" : "↑"),
      element("span", { class: "count", role: "status" }));
  }

  function draw() {
    const count = bar.querySelector(".count");
    if (count) count.textContent = `${rows.length.toLocaleString("en")} of ${state.images.toLocaleString("en")} photos`;
    if (!rows.length) {
      field.style.height = "";
      field.replaceChildren(state.images ? empty("No photo fits", "Press a part again to take its filter away.")
        : empty("Looking for parts", "The first photos appear in a moment."));
      return;
    }
    const narrow = field.clientWidth < 700, gap = narrow ? 6 : 10, least = narrow ? 108 : 168;
    const columns = Math.max(1, Math.floor((field.clientWidth + gap) / (least + gap)));
    const height = (field.clientWidth + gap) / columns;
    field.style.height = `${Math.ceil(rows.length / columns) * height}px`;
    const top = Math.max(0, -field.getBoundingClientRect().top);
    const from = Math.max(0, Math.floor(top / height) - GAP_ROWS) * columns;
    const to = Math.min(rows.length, (Math.ceil((top + innerHeight) / height) + GAP_ROWS) * columns);
    if (from === shownFrom && to === shownTo) return;
    const old = new Map([...field.querySelectorAll(".tile")].map(node => [Number(node.dataset.row), node]));
    const keep = shownFrom !== -1;
    shownFrom = from; shownTo = to;
    const grid = element("div", { class: "grid" });
    grid.style.top = `${from / columns * height}px`;
    grid.style.gridTemplateColumns = `repeat(${columns}, 1fr)`;
    const focused = Number(document.activeElement?.dataset?.row ?? -1);
    for (const row of rows.slice(from, to)) {
      grid.append(keep && old.has(row) ? old.get(row) : tile(row, { onOpen: opened => openPhoto(opened, rows), caption: captionOf }));
    }
    field.replaceChildren(grid);
    if (focused >= 0) grid.querySelector(`[data-row="${focused}"]`)?.focus({ preventScroll: true });
  }

  function captionOf(found) {
    const of = part(Number(choice.part));
    const own = of && found.parts.find(each => each.index === of.index);
    if (own && choice.order === "area") return `${of.name} ${percent(own.share)}`;
    if (own && choice.order === "certainty") return `${of.name} ${percent(own.certainty)} certain`;
    if (own && choice.order === "unusual") return `${of.name} ${own.unusual.toFixed(1)} σ`;
    return found.name.split("/").pop();
  }

  const onScroll = () => requestAnimationFrame(draw);
  addEventListener("scroll", onScroll, { passive: true });
  addEventListener("resize", onScroll);
  drawBar(); load();
  return {
    update: ({ names, photos }) => { if (names) drawBar(); if (names || photos) load(); },
    leave: () => { removeEventListener("scroll", onScroll); removeEventListener("resize", onScroll); },
  };
}
