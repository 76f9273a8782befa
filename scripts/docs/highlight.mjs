import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import typescript from "highlight.js/lib/languages/typescript";
import yaml from "highlight.js/lib/languages/yaml";

// Code is highlighted when the documentation is built, so that pages need no script for it. This file is JavaScript with its types beside it,
// because the types of highlight.js declare the DOM, which would replace the types of the Worker.

const languages = { sh: bash, go, js: javascript, json, python, ts: typescript, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

/** The class of each kind of token. Kinds that are not listed look like the code around them. */
const classes = {
  string: "token-text",
  regexp: "token-text",
  number: "token-value",
  literal: "token-value",
  keyword: "token-word",
  built_in: "token-word",
  comment: "token-note",
  attr: "token-member",
  property: "token-member",
};

export function highlight(code, language) {
  const [name = ""] = (language ?? "").split(" ");
  const { value } = hljs.getLanguage(name) ? hljs.highlight(code, { language: name }) : { value: escaped(code) };
  return withoutEmpty(value.replaceAll(/<span class="hljs-(\w+)[^"]*">/g, (_, kind) => `<span class="${classes[kind] ?? ""}">`));
}

const escaped = (code) => code.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** Removes the elements without a class. */
function withoutEmpty(html) {
  const isKept = [];
  return html.replaceAll(/<span class="([\w-]*)">|<\/span>/g, (tag, name) => {
    if (name === undefined) return isKept.pop() ? tag : "";
    isKept.push(name !== "");
    return name === "" ? "" : tag;
  });
}
