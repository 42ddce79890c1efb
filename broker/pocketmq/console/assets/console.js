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

function openChosen() {
  const row = document.querySelector("main tbody tr.chosen a");
  if (row) row.click();
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
  else if (event.key === "Enter" && target === document.body) openChosen();
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

document.addEventListener("keydown", press);
document.addEventListener("click", copy);
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-wishes]")) showField(event.target);
  if (event.target.matches("select[data-submits]")) event.target.form.submit();
});
for (const select of document.querySelectorAll("select[data-wishes]")) showField(select);
