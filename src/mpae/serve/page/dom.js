// Small helpers: elements, and requests that end in a sentence where something is wrong.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  const node = ["svg", "path", "image", "title"].includes(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "colour") node.style.setProperty("--chip", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { "x-mpae": "1", ...options.headers } });
  } catch {
    throw new Error("The server does not answer; is `mpae serve` still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(content.sentence || `The server said ${response.status}.`), { status: response.status });
  return content;
}

export const send = (path, content) => request(path, {
  method: "POST", body: JSON.stringify(content), headers: { "content-type": "application/json" } });

let hide;
export function notify(sentence) {
  const notice = document.getElementById("notice");
  notice.hidden = !sentence;
  notice.firstElementChild.textContent = sentence || "";
  clearTimeout(hide);
  if (sentence) hide = setTimeout(() => { notice.hidden = true; }, 12000);
}

export const percent = share => share > 0 && share < 0.0005 ? "< 0.1 %" : share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(1)} %`;
export const empty = (title, text) => element("p", { class: "empty" }, element("strong", {}, title), text);
