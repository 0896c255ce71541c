// What looks wrong: parts unlike themselves elsewhere, and parts missing where they nearly always are there.

import { element, empty, notify, percent, request } from "./dom.js";
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
    const photos = new Map();  // a photo once, with all that is wrong in it
    for (const each of found.outliers) photos.set(each.row, [...(photos.get(each.row) ?? []), each]);
    const rows = [...photos.keys()];
    const grid = element("div", { class: "grid wrong" });
    for (const [row, wrong] of photos) {
      const names = why => [...new Set(wrong.filter(each => each.why === why).map(each => part(each.part)?.name ?? "part"))].join(", ");
      const words = [names("missing") && `${names("missing")} missing`, names("unlike") && `${names("unlike")} unlike itself`].filter(Boolean).join(" · ");
      const made = tile(row, { onOpen: opened => openPhoto(opened, rows), only: wrong[0].why === "missing" ? null : wrong[0].part, caption: () => words });
      made.dataset.why = wrong[0].why;
      made.dataset.score = wrong[0].score;
      grid.append(made);
    }
    const share = state.images ? ` (${percent(rows.length / state.images)})` : "";
    place.replaceChildren(element("p", { class: "hint" }, `${rows.length.toLocaleString("en")} of ${state.images.toLocaleString("en")} photos${share}, the strangest first: `
      + "a part looks unlike itself in the other photos, or is missing although nearly every photo shows it."), grid);
  }

  load();
  return { update: () => load(), leave: () => {} };
}
