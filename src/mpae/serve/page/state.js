// What the server last said of run, names and progress; views listen for changes.

import { notify, request, send } from "./dom.js";

export let state = null;
const listeners = new Set();
export const onChange = listener => { listeners.add(listener); return () => listeners.delete(listener); };

function accept(next) {
  const before = state;
  state = next;
  if (!before || before.revision !== next.revision || before.version !== next.version || before.job.state !== next.job.state
      || before.job.done !== next.job.done || before.model !== next.model) {
    const names = !before || before.revision !== next.revision;
    const photos = !before || before.version !== next.version;
    for (const listener of listeners) listener({ names, photos });
  }
}

export async function refresh() {
  try { accept(await request("/api/state")); } catch (error) { notify(error.message); }
}

export async function change(content) {
  try {
    accept(await send("/api/parts", { revision: state.revision, ...content }));
    notify("");
    return true;
  } catch (error) {
    notify(error.message);
    await refresh();
    return false;
  }
}

export const part = index => state.parts.find(each => each.index === index);

export function poll() {
  const busy = state && ["loading", "predicting"].includes(state.job.state);
  setTimeout(async () => { if (!document.hidden) await refresh(); poll(); }, busy ? 1000 : 2500);
}
