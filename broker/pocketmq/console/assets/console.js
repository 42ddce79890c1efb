"use strict";
// Keys, copies of commands, and the live tail. Unknown text becomes text nodes only.

const base = document.body.dataset.base;
const keys = JSON.parse(document.body.dataset.keys || "{}");
let awaitsKey = 0;

function rows() {
  return [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
}

function choose(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("chosen"));
  const next = Math.min(Math.max(at + step, 0), all.length - 1);
  if (at >= 0) all[at].classList.remove("chosen");
  all[next].classList.add("chosen");
  all[next].scrollIntoView({ block: "nearest" });
}

// Rows that are loaded again have the same row chosen.
let chosenAt = -1;
document.addEventListener("htmx:beforeSwap", () => {
  chosenAt = rows().findIndex((row) => row.classList.contains("chosen"));
});
document.addEventListener("htmx:afterSwap", () => {
  const row = rows()[chosenAt];
  if (row && !document.querySelector("main tbody tr.chosen")) row.classList.add("chosen");
});

function openChosen() {
  const row = document.querySelector("main tbody tr.chosen a");
  if (row) row.click();
}

// A dialog that was just closed has the focus until the browser's next frame.
function isFree(target) {
  return target === document.body || Boolean(target.closest("dialog:not([open])"));
}

function press(event) {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.matches("input, select, textarea")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if (Date.now() - awaitsKey < 1500 && keys[event.key]) {
    awaitsKey = 0;
    location.href = base + keys[event.key];
    return;
  }
  awaitsKey = 0;
  const help = document.getElementById("keys");
  if (event.key === "g") awaitsKey = Date.now();
  else if (event.key === "/") {
    const field = document.querySelector("input.search");
    if (field) field.focus();
    else location.href = base + "/messages";
    event.preventDefault();
  } else if (event.key === "j") choose(1);
  else if (event.key === "k") choose(-1);
  else if (event.key === "Enter" && isFree(target)) openChosen();
  else if (event.key === "?" && help) help.showModal();
}

function copy(event) {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = button.parentElement.querySelector("code, pre").textContent;
  const before = button.textContent;
  const done = () => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1200);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done);
  else {
    getSelection().selectAllChildren(button.parentElement.querySelector("code, pre"));
    document.execCommand("copy");
    done();
  }
}

function showField(select) {
  const label = select.selectedOptions[0].dataset.wish;
  const field = document.getElementById("wish");
  field.hidden = !label;
  field.querySelector("span").textContent = label || "";
}

// What scrolls without anything inside that takes the focus must take it itself.
function makeReachable() {
  for (const part of document.querySelectorAll(".scroll, pre, .cli code")) {
    const scrolls = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
    if (scrolls && !part.querySelector("a, button, input")) part.tabIndex = 0;
  }
}

makeReachable();
addEventListener("resize", makeReachable);
document.addEventListener("htmx:afterSwap", makeReachable);

// A file becomes a field of its form, in base64.
function fill(input) {
  const reader = new FileReader();
  reader.onload = () => {
    input.form.elements[input.dataset.fills].value = reader.result.split(",")[1] || "";
    input.form.querySelector("button").disabled = false;
  };
  if (input.files[0]) reader.readAsDataURL(input.files[0]);
}

const current = document.querySelector("nav [aria-current]");
if (current && matchMedia("(max-width: 820px)").matches) current.scrollIntoView({ inline: "center", block: "nearest" });
document.addEventListener("keydown", press);
document.addEventListener("click", copy);
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-wishes]")) showField(event.target);
  if (event.target.matches("select[data-submits]")) event.target.form.submit();
  if (event.target.matches("input[data-fills]")) fill(event.target);
});
for (const select of document.querySelectorAll("select[data-wishes]")) showField(select);

// The live tail: newest rows first, at most ROWS_MAX of them.
const ROWS_MAX = 300;
const CLASSES = ["time", "number wide", "number wide", "name wide", "name", "body"];

function addRow(table, row) {
  const line = table.tBodies[0].insertRow(0);
  row.cells.forEach((text, at) => {
    const cell = line.insertCell();
    cell.className = CLASSES[at];
    if (at === 0) {
      const link = document.createElement("a");
      link.href = row.url;
      link.textContent = text;
      cell.append(link);
    } else {
      const part = document.createElement("bdi");
      part.textContent = text;
      cell.append(part);
    }
  });
  while (table.tBodies[0].rows.length > ROWS_MAX) table.tBodies[0].deleteRow(-1);
}

function follow(table) {
  const state = document.getElementById("tail-state");
  const source = new EventSource(table.dataset.events);
  let count = 0;
  const stop = (text) => {
    source.close();
    state.textContent = text;
  };
  source.onopen = () => { state.textContent = "waiting for messages"; };
  source.onerror = () => stop("The connection ended: press Follow to go on.");
  source.addEventListener("failed", (event) => stop(JSON.parse(event.data)));
  source.addEventListener("messages", (event) => {
    const given = JSON.parse(event.data);
    for (const row of given.rows) addRow(table, row);
    count += given.rows.length + given.skipped;
    state.textContent = `${count} messages`;
  });
  document.getElementById("tail-stop").addEventListener("click", () => stop(`stopped after ${count} messages`));
}

const table = document.getElementById("tail");
if (table) follow(table);
