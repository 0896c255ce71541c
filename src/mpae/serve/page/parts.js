// Name, join, hide and colour: each part with its most and least certain examples.

import { element, empty, notify, request } from "./dom.js";
import { openPhoto } from "./photo.js";
import { change, state } from "./state.js";
import { tile } from "./tiles.js";

export function partsView(root) {
  root.append(element("p", { class: "hint" }, "Type a name. Drag one part onto another, or choose it under “Join with”, to make them one. "
    + "Hidden parts are left out of photos and of the COCO file."));
  const list = element("div");
  root.append(list);
  let dragged = null, strips = {};

  async function load() {
    try { ({ strips } = await request("/api/examples")); } catch (error) { notify(error.message); }
    draw();
  }

  function draw() {
    const focused = document.activeElement?.closest?.(".part")?.dataset.part, kind = document.activeElement?.dataset?.kind;
    list.replaceChildren(...state.parts.map(card));
    if (focused && kind) list.querySelector(`.part[data-part="${focused}"] [data-kind="${kind}"]`)?.focus();
    if (!state.parts.length) list.append(empty("No parts", "This run has none."));
  }

  function card(each) {
    const name = element("input", { type: "text", value: each.name, maxlength: 40, "aria-label": `Name of ${each.name}`, "data-kind": "name", spellcheck: "false",
      onkeydown: event => { if (event.key === "Enter") event.target.blur(); if (event.key === "Escape") { event.target.value = each.name; event.target.blur(); } },
      onchange: async event => { if (!await change({ change: "name", part: each.index, name: event.target.value })) event.target.value = each.name; } });
    const join = element("select", { "aria-label": `Join ${each.name} with`, "data-kind": "join", onchange: event => {
      if (event.target.value) change({ change: "join", part: each.index, into: Number(event.target.value) }); } },
      element("option", { value: "" }, "Join with …"), ...state.parts.filter(other => other.index !== each.index)
        .map(other => element("option", { value: other.index }, other.name)));
    const head = element("div", { class: "head" },
      element("span", { class: "grip", draggable: "true", title: "Drag onto another part to join them", "aria-hidden": "true",
        ondragstart: event => { dragged = each.index; event.dataTransfer.setData("text/plain", String(each.index)); },
        ondragend: () => { dragged = null; } }, "⠿"),
      element("input", { type: "color", value: each.colour, "aria-label": `Colour of ${each.name}`, "data-kind": "colour",
        onchange: event => change({ change: "colour", part: each.index, colour: event.target.value }) }),
      name, element("span", { class: "count" }, state.images ? `in ${Math.round(100 * each.count / state.images)} % of the photos`
        + (each.members.length > 1 ? ` · joined from ${each.members.join(", ")}` : ` · part ${each.members[0]}`) : `part ${each.members.join(", ")}`),
      element("span", { class: "end" }, join,
        each.members.length > 1 ? element("button", { type: "button", "data-kind": "split", onclick: () => change({ change: "split", part: each.index }) }, "Split") : null,
        element("button", { type: "button", "data-kind": "hide", "aria-pressed": String(each.hidden), onclick: () => change({ change: "hide", part: each.index, hidden: !each.hidden }) }, each.hidden ? "Show" : "Hide")));
    const found = strips[each.index] || { certain: [], uncertain: [] };
    const body = found.certain.length && !each.hidden ? element("div", { class: "strips" },
      strip("Most certain", found.certain, each.index), found.uncertain.length ? strip("Least certain", found.uncertain, each.index) : null) : null;
    return element("section", { class: each.hidden ? "part hidden-part" : "part", colour: each.colour, "data-part": each.index, "aria-label": each.name,
      ondragover: event => { if (dragged !== null && dragged !== each.index) { event.preventDefault(); event.currentTarget.classList.add("over"); } },
      ondragleave: event => event.currentTarget.classList.remove("over"),
      ondrop: event => { event.preventDefault(); event.currentTarget.classList.remove("over");
        if (dragged !== null && dragged !== each.index) change({ change: "join", part: dragged, into: each.index }); } }, head, body);
  }

  function strip(title, rows, index) {
    return element("div", { class: "strip" }, element("h3", {}, title), element("div", { class: "row" },
      ...rows.map(row => tile(row, { onOpen: opened => openPhoto(opened, rows), only: index, close: true }))));
  }

  load();
  return { update: ({ names, photos }) => { if (names || photos) load(); }, leave: () => {} };
}
