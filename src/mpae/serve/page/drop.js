// Drop, paste or choose photos: each is sent, its parts come back, and the server keeps nothing.

import { element, notify, request } from "./dom.js";
import { openPhoto, photoParts, searchVector } from "./photo.js";
import { state } from "./state.js";
import { tile } from "./tiles.js";

const results = element("div");
const MOST = 20;

export function dropView(root) {
  const input = element("input", { type: "file", accept: "image/*", multiple: true, hidden: true, id: "files", "aria-label": "Photos",
    onchange: event => { take(event.target.files); event.target.value = ""; } });
  const zone = element("div", { class: "drop" }, element("strong", {}, "Drop photos here"), "or paste one. They are looked at on this machine and kept nowhere.",
    element("div", {}, element("button", { type: "button", class: "primary", onclick: () => input.click() }, "Choose photos")), input);
  root.append(zone, results);
  if (state.images && !results.childElementCount) {
    const rows = Array.from({ length: Math.min(8, state.images) }, (_, i) => Math.floor(i * state.images / Math.min(8, state.images)));
    root.append(element("section", {}, element("h2", { class: "section" }, "Or look at one of these"), element("div", { class: "grid samples" },
      ...rows.map(row => tile(row, { onOpen: opened => openPhoto(opened, rows), caption: found => found.name.split("/").pop() })))));
  }
  else if (!state.images) offerSamples(root);
  return { update: () => {}, leave: () => {} };
}

// Without a gallery: photos that the run was trained on, or the last picture that training drew.
async function offerSamples(root) {
  let found;
  try { found = await request("/api/samples"); } catch { return; }
  if (!root.isConnected) return;
  const section = (title, ...content) => root.append(element("section", {}, element("h2", { class: "section" }, title), ...content));
  if (found.samples.length) {
    section("Or try one that this run was trained on", element("div", { class: "grid samples" }, ...found.samples.map((name, number) =>
      element("button", { type: "button", class: "tile", title: name, "aria-label": `Find the parts of ${name}`, onclick: () => showSample(name, number) },
        element("img", { src: `/sample/${number}`, alt: "", loading: "lazy" }), element("span", { class: "caption" }, name)))));
  } else if (found.preview) {
    section("What training drew last: photos, their parts, and what was restored from them", element("img", { class: "preview", src: "/preview.png", alt: "Photos, their parts, and their restorations" }));
  }
}

async function showSample(name, number) {
  try {
    const answer = await fetch(`/sample/${number}`);
    await show(new File([await answer.blob()], name, { type: "image/jpeg" }));
    scrollTo({ top: 0 });
  } catch (error) { notify(error.message); }
}

export async function take(files) {
  if (location.hash !== "#drop") location.hash = "#drop";
  for (const file of [...files].slice(0, MOST)) await show(file);
}

async function show(file) {
  const card = element("section", { class: "result", "aria-busy": "true", "aria-label": file.name }, element("div", { class: "sheet" }, element("p", { class: "hint" }, `Looking for parts in ${file.name} …`)));
  results.prepend(card);
  try {
    const found = await request("/api/upload", { method: "POST", body: file, headers: { "content-type": file.type || "application/octet-stream", "x-name": encodeURIComponent(file.name || "photo") } });
    const stem = found.name.replace(/\.[^.]*$/, "");
    const coco = URL.createObjectURL(new Blob([JSON.stringify(found.coco)], { type: "application/json" }));
    const link = (href, name, text) => element("a", { class: "button", href, download: `${stem}-${name}` }, text);
    card.replaceChildren(element("div", { class: "sheet" }, element("div", { class: "title" }, element("h2", {}, found.name),
      element("button", { type: "button", "aria-label": `Remove ${found.name}`, onclick: () => { URL.revokeObjectURL(coco); card.remove(); } }, "×")),
      ...photoParts(found, { view: found.view, search: index => found.vectors[index] && searchVector(index, found.vectors[index]),
        links: [link(found.mask, "mask.png", "Download mask"), link(found.overlay, "overlay.jpg", "Download overlay"), link(coco, "coco.json", "Download COCO")] })));
  } catch (error) {
    card.remove();
    notify(error.message);
  }
  card.setAttribute("aria-busy", "false");
}

export function listenForDrops() {
  addEventListener("dragover", event => { if (event.dataTransfer?.types.includes("Files")) { event.preventDefault(); document.querySelector(".drop")?.classList.add("over"); } });
  addEventListener("dragleave", event => { if (!event.relatedTarget) document.querySelector(".drop")?.classList.remove("over"); });
  addEventListener("drop", event => {
    document.querySelector(".drop")?.classList.remove("over");
    if (event.dataTransfer?.files.length) { event.preventDefault(); take(event.dataTransfer.files); }
  });
  addEventListener("paste", event => { if (event.clipboardData?.files.length) { event.preventDefault(); take(event.clipboardData.files); } });
}
