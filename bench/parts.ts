// Which part of the platform or of the product a moment of a request's CPU belongs to, by the stack that `perf` saw. The names
// are those of workerd's own source.

export interface Frame {
  isKernel: boolean;
  /** The function's, or `[unknown]`. */
  name: string;
}

const garbage = "V8: garbage collection";
const helpers = "V8: its other threads";
const kernel = "kernel: sockets, waiting";

/** All frames below such a frame belong to it. */
const collecting = /^v8::internal::(Heap::CollectGarbage|MinorGCJob|IncrementalMarkingJob)|^cppgc::internal::HeapBase::/;

/** By the innermost frame that says where it belongs; containers, strings and memory belong to the frame that uses them. */
const owners: [part: string, of: RegExp][] = [
  ["workerd: headers", /^workerd::api::Headers|^kj::HttpHeaders/],
  ["workerd: `Request`, `Response`", /^workerd::api::(Request|Response|Body|FetchEvent|ServiceWorkerGlobalScope)/],
  ["workerd: calls of objects", /JsRpc|^capnp::|^workerd::(api::)?(.*Actor|InputGate|OutputGate)/],
  ["workerd: HTTP", /kj_hyper|\bhyper::|\bhttp::|\bbytes::|\bmio::|futures_util|workerd_server::listen/],
  ["workerd: the context and lock of each turn", /^workerd::(IoContext|Worker|ThreadContext|.*WorkerEntrypoint)/],
  ["V8: what follows each `await`", /^Builtins_RunMicrotasks|^v8::internal::MicrotaskQueue/],
  ["workerd: between JavaScript and C++", /^workerd::jsg::/],
  ["workerd: promises, event loop", /^kj::_::|^kj::(Promise|TaskSet|EventLoop)|tokio|kj_rs/],
];

/** What a promise, a container or a string is made of: it says nothing of whom it serves. */
const anybodys = /^kj::_::(Heap(Array)?Disposer|HashCoder|Deferred|StaticDisposer)|Disposer::/;

/** `stack`: the innermost frame first. `partOfLine`: what each line of the Worker's script belongs to. */
export function partOf(thread: string, stack: readonly Frame[], partOfLine: readonly string[]): string {
  if (thread.startsWith("V8")) return helpers;
  if (stack[0]?.isKernel) return kernel;
  if (stack.some(({ name }) => collecting.test(name))) return garbage;
  for (const { name } of stack) {
    const [, script, line] = /^JS:.*\s(\S+):(\d+):\d+$/.exec(name) ?? [];
    if (script) return script === "index.js" ? (partOfLine[Number(line) - 1] ?? "") : "workerd: its own JavaScript";
    if (anybodys.test(name)) continue;
    const owner = owners.find(([, of]) => of.test(name));
    if (owner) return owner[0];
  }
  return "native: all else";
}

/** Whether a part is the Worker's own script, with the libraries in it, and not what runs it. */
export const isOfScript = (part: string): boolean => !/^(workerd|V8|kernel|native): /.test(part);

/** What each line of a bundle belongs to: a package, or a folder of the product. */
export function partsOfLines(bundled: string): string[] {
  let part = "";
  return bundled.split("\n").map((line) => {
    const [, file] = /^\/\/ (\S+\.[cm]?[jt]sx?)$/.exec(line) ?? [];
    if (file) part = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file.replace(/\/[^/]*$/, "/");
    return part;
  });
}
