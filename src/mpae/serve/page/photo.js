// One photo beside its parts; for a photo of the gallery, and for one that was dropped.

import { element, notify, percent, request, send } from "./dom.js";
import { part, state } from "./state.js";
import { outlines, tile } from "./tiles.js";

const dialog = () => document.getElementById("photo");

// What was asked for last is shown, whichever answer comes first.
let asked = 0;

export async function openPhoto(row, rows = []) {
  const mine = ++asked;
  let found;
  try { found = await request(`/api/photo/${row}`); } catch (error) { if (mine === asked) notify(error.message); return; }
  if (mine !== asked) return;
  const place = rows.indexOf(row);
  const step = by => { if (rows[place + by] !== undefined) openPhoto(rows[place + by], rows); };
  const sheet = element("div", { class: "sheet" },
    element("div", { class: "title" }, element("h2", { title: found.name }, found.name),
      place >= 0 ? element("button", { type: "button", "aria-label": "Photo before", disabled: place <= 0, onclick: () => step(-1) }, "‹") : null,
      place >= 0 ? element("button", { type: "button", "aria-label": "Next photo", disabled: place >= rows.length - 1, onclick: () => step(1) }, "›") : null,
      element("button", { type: "button", "aria-label": "Close", onclick: () => dialog().close() }, "×")),
    ...photoParts(found, { view: state.photos ? `/photo/${row}` : null,
      search: index => searchPart(index, request(`/api/search?row=${row}&part=${index}&top=40`), row),
      links: ["mask", "overlay", "coco"].map(kind => element("a", { class: "button", href: `/download/${row}/${kind}`, download: true }, `Download ${kind === "coco" ? "COCO" : kind}`)) }));
  fill(sheet, event => { if (event.key === "ArrowLeft") step(-1); else if (event.key === "ArrowRight") step(1); });
}

// The focus goes to the button of the same name, or to the dialog: keys are heard where the focus is.
function fill(sheet, onKey) {
  const button = document.activeElement?.getAttribute("aria-label");
  dialog().onkeydown = onKey;
  dialog().replaceChildren(sheet);
  dialog().scrollTop = 0;
  if (!dialog().open) dialog().showModal();
  else ([...dialog().querySelectorAll("button:enabled")].find(each => each.getAttribute("aria-label") === button) ?? dialog()).focus();
}

// Photo and outlines side by side, a row for each part, downloads.
export function photoParts(found, { view, search, links }) {
  const [, , width, height] = found.box.split(" ").map(Number);
  const svg = element("svg", { viewBox: found.box, role: "img", "aria-label": "The photo with its parts outlined" });
  if (view) svg.append(element("image", { href: view, width, height, preserveAspectRatio: "none" }));
  outlines(svg, found);
  const paths = index => svg.querySelectorAll(`path[data-part="${index}"]`);
  svg.addEventListener("click", event => { if (event.target.dataset?.part && state.search) search(Number(event.target.dataset.part)); });
  const body = element("tbody");
  for (const each of found.parts) {
    const named = part(each.index);
    if (!named || named.hidden) continue;
    const light = on => paths(each.index).forEach(path => path.classList.toggle("lit", on));
    body.append(element("tr", { colour: named.colour, "data-part": each.index, onmouseenter: () => light(true), onmouseleave: () => light(false) },
      element("td", {}, element("label", {}, element("input", { type: "checkbox", checked: true, onchange: event =>
        paths(each.index).forEach(path => path.classList.toggle("off", !event.target.checked)) }), element("span", { class: "swatch" }), named.name)),
      element("td", {}, percent(each.share)),
      element("td", {}, meter(each.certainty), percent(each.certainty)),
      element("td", {}, element("button", { type: "button", disabled: !state.search, onclick: () => search(each.index),
        "aria-label": `Find photos with a similar ${named.name}` }, "Find similar"))));
  }
  const table = body.childElementCount ? element("table", { class: "list" }, element("thead", {}, element("tr", {},
    ...["Part", "Area", "Certainty", ""].map(text => element("th", { scope: "col" }, text)))), body)
    : element("p", { class: "hint" }, "No part was found in this photo.");
  return [element("div", { class: "pair" },
    element("figure", {}, view ? element("img", { src: view, alt: `The photo ${found.name}` }) : "The photo is not here."),
    element("figure", {}, svg)), table, element("div", { class: "links" }, ...links)];
}

const meter = value => { const bar = element("i"); bar.style.width = `${Math.round(value * 100)}%`; return element("span", { class: "meter", "aria-hidden": "true" }, bar); };

export const searchVector = (index, found) => searchPart(index, send("/api/search", { ...found, top: 40 }));

async function searchPart(index, answer, from = null) {
  const mine = ++asked;
  let matches;
  try { ({ matches } = await answer); } catch (error) {
    if (mine === asked) { notify(error.message); if (dialog().open) dialog().close(); }
    return;
  }
  if (mine !== asked) return;
  const rows = matches.map(each => each.row), similarity = new Map(matches.map(each => [each.row, each.similarity]));
  const grid = element("div", { class: "grid results" });
  if (from !== null) {
    const looked = tile(from, { onOpen: () => openPhoto(from, [from, ...rows]), only: index, close: true, caption: () => "Looked for" });
    looked.classList.add("looked-for");
    grid.append(looked);
  }
  for (const row of rows) {
    grid.append(tile(row, { onOpen: opened => openPhoto(opened, rows), only: index, close: true,
      caption: found => `${(Math.round(100 * similarity.get(row)) / 100 || 0).toFixed(2)} · ${found.name.split("/").pop()}` }));
  }
  fill(element("div", { class: "sheet" }, element("div", { class: "title" },
    element("h2", {}, `${rows.length ? `The ${rows.length} photos` : "No photos"} with the most similar ${part(index)?.name ?? "part"}`),
    element("button", { type: "button", "aria-label": "Close", onclick: () => dialog().close() }, "×")), grid), null);
}
