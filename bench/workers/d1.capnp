# What stands for D1: workerd's own, behind HTTP, in a process of its own.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "front", worker = (
      modules = [(name = "d1-front.js", esModule = embed "d1-front.js")],
      compatibilityDate = "2026-11-01",
      bindings = [(name = "D1", service = (name = "d1", props = (json = "{\"database\": \"bench\"}")))],
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
  sockets = [(name = "http", http = (), service = "front")],
);
