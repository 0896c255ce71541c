// The page: four views, one bar, and what they have in common.

import { notify } from "./dom.js";
import { dropView, listenForDrops } from "./drop.js";
import { partsView } from "./parts.js";
import { photosView } from "./photos.js";
import { change, onChange, poll, refresh, state } from "./state.js";
import { wrongView } from "./wrong.js";

const VIEWS = { photos: photosView, parts: partsView, wrong: wrongView, drop: dropView };
let view = null;

function show() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : state.gallery ? "photos" : "drop";
  view?.leave();
  const main = document.getElementById("content");
  main.replaceChildren();
  scrollTo(0, 0);
  view = VIEWS[name](main);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
}

function drawBar() {
  document.getElementById("run").textContent = state.run;
  document.title = `${state.run} · mpae`;
  document.getElementById("undo").disabled = !state.canUndo;
  document.getElementById("coco").hidden = !state.images;
  const job = document.getElementById("job"), { done, total, sentence } = state.job;
  const predicting = state.job.state === "predicting" || (state.job.state === "loading" && done < total);
  job.hidden = !predicting && !(state.job.state === "loading");
  job.querySelector("progress").hidden = !predicting;
  job.querySelector("progress").value = total ? done / total : 0;
  job.querySelector("span").textContent = predicting ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")} photos` : "Loading the model";
  if (state.job.state === "failed") notify(sentence);
}

const typing = target => target.matches?.("input, textarea, select");
addEventListener("hashchange", show);
addEventListener("keydown", event => {
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing(event.target) && state?.canUndo) { event.preventDefault(); change({ change: "undo" }); }
});
document.getElementById("undo").addEventListener("click", () => change({ change: "undo" }));
document.querySelector("#notice button").addEventListener("click", () => notify(""));
onChange(what => { drawBar(); if (view) view.update(what); });
listenForDrops();
await refresh();
if (state) show();
poll();
