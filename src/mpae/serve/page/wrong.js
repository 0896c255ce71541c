// What looks wrong: parts unlike themselves elsewhere, and parts missing where they nearly always are there.

import { element, empty, notify, request } from "./dom.js";
import { openPhoto } from "./photo.js";
import { part, state } from "./state.js";
import { tile } from "./tiles.js";

export function wrongView(root) {
  const place = element("div");
  root.append(place);

  async function load() {
    if (!state.gallery) { place.replaceChildren(empty("No folder of photos", "Start with `mpae serve RUN IMAGES` to see which of them look wrong.")); return; }
    if (!state.measured) {
      place.replaceChildren(state.job.state === "ready" || state.job.state === "failed"
        ? empty("Nothing to compare by", "These predictions have no features.npy; predict again with --write masks,parts,features.")
        : empty("Not yet known", "All photos are predicted first; then the strangest are listed here."));
      return;
    }
    let found;
    try { found = await request("/api/outliers"); } catch (error) { notify(error.message); return; }
    if (!found.total) { place.replaceChildren(empty("Nothing looks wrong", "No part is far from what it is elsewhere, and none is missing where it nearly always is.")); return; }
    const rows = found.outliers.map(each => each.row);
    const grid = element("div", { class: "grid" });
    for (const each of found.outliers) {
      const name = part(each.part)?.name ?? "part";
      const missing = each.why === "missing";
      const made = tile(each.row, { onOpen: opened => openPhoto(opened, rows), only: missing ? null : each.part,
        caption: () => missing ? `${name} missing` : `${name} unlike itself · ${each.score.toFixed(1)} σ` });
      made.dataset.why = each.why;
      grid.append(made);
    }
    place.replaceChildren(element("p", { class: "hint" }, `${found.total.toLocaleString("en")} found, the strangest first: a part that looks unlike itself in the other photos, `
      + "or one that is missing although nearly every photo shows it."), grid);
  }

  load();
  return { update: () => load(), leave: () => {} };
}
