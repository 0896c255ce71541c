// Small pictures with outlines: fetched in batches, kept until names or photos change.

import { element, request } from "./dom.js";
import { onChange, part, state } from "./state.js";

const kept = new Map();
let wanted = new Map();
onChange(({ names, photos }) => { if (names || photos) kept.clear(); });

export function tileOf(row) {
  if (kept.has(row)) return kept.get(row);
  const promise = new Promise((resolve, reject) => {
    if (!wanted.size) queueMicrotask(fetchWanted);
    wanted.set(row, { resolve, reject });
  });
  kept.set(row, promise);
  promise.catch(() => kept.delete(row));
  if (kept.size > 3000) kept.delete(kept.keys().next().value);
  return promise;
}

async function fetchWanted() {
  const asked = wanted;
  wanted = new Map();
  const rows = [...asked.keys()];
  for (let start = 0; start < rows.length; start += 60) {
    const some = rows.slice(start, start + 60);
    try {
      const { tiles } = await request(`/api/tiles?rows=${some.join(",")}`);
      for (const tile of tiles) asked.get(tile.row).resolve(tile);
    } catch (error) {
      for (const row of some) asked.get(row).reject(error);
    }
  }
}

export function outlines(svg, found, only = null) {
  for (const [index, d] of Object.entries(found.paths)) {
    const named = part(Number(index));
    if (!named || (only !== null && named.index !== only)) continue;
    svg.append(element("path", { d, fill: named.colour, stroke: named.colour, "data-part": index }));
  }
}

// A tile that fills itself: the photo cropped to a square, or to the surroundings of one part.
export function tile(row, { onOpen, caption = null, only = null, close = false } = {}) {
  const svg = element("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "xMidYMid slice", "aria-hidden": "true" });
  const button = element("button", { type: "button", class: "tile", "data-row": row, "aria-label": "Photo",
    onclick: () => onOpen(row) }, svg);
  tileOf(row).then(found => {
    const [, , width, height] = found.box.split(" ").map(Number);
    svg.setAttribute("viewBox", close && found.paths[only] ? around(found.paths[only], width, height) : found.box);
    if (state.photos) svg.append(element("image", { href: `/thumbnail/${row}`, width, height, preserveAspectRatio: "none" }));
    outlines(svg, found, only);
    const names = found.parts.map(each => part(each.index)).filter(each => each && !each.hidden).map(each => each.name);
    button.setAttribute("aria-label", `${found.name}: ${names.join(", ") || "no parts"}`);
    button.title = found.name;
    if (caption) button.append(element("span", { class: "caption" }, caption(found)));
  }).catch(() => button.setAttribute("aria-label", "This photo cannot be shown"));
  return button;
}

function around(path, width, height) {
  const numbers = path.match(/[\d.]+/g).map(Number);
  const xs = numbers.filter((_, i) => i % 2 === 0), ys = numbers.filter((_, i) => i % 2 === 1);
  const left = Math.min(...xs), right = Math.max(...xs), top = Math.min(...ys), bottom = Math.max(...ys);
  const side = Math.min(Math.max(1.7 * Math.max(right - left, bottom - top), 0.45 * Math.min(width, height)), Math.max(width, height));
  const start = (middle, length) => side > length ? (length - side) / 2 : Math.min(Math.max(middle - side / 2, 0), length - side);  // inside the photo
  return `${start((left + right) / 2, width)} ${start((top + bottom) / 2, height)} ${side} ${side}`;
}
