# What stands for D1: workerd's own, behind HTTP, in a process of its own. A socket for each database.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "d1-front.js", esModule = embed "d1-front.js")],
      compatibilityDate = "2026-11-01",
      bindings = [(name = "D1", service = (name = "d1", props = (json = "{\"database\": \"main\"}")))],
    )),
    (name = "activity", worker = (
      modules = [(name = "d1-front.js", esModule = embed "d1-front.js")],
      compatibilityDate = "2026-11-01",
      bindings = [(name = "D1", service = (name = "d1", props = (json = "{\"database\": \"activity\"}")))],
    )),
    (name = "d1", worker = (
      modules = [(name = "d1.js", bundled = "/workerd/d1.js")],
      compatibilityDate = "2026-11-01",
      durableObjectNamespaces = [(className = "D1Database", uniqueKey = "databases", enableSql = true)],
      durableObjectStorage = (localDisk = "disk"),
      bindings = [(name = "DATABASE", durableObjectNamespace = "D1Database")],
    )),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "main", http = (), service = "main"), (name = "activity", http = (), service = "activity")],
);
