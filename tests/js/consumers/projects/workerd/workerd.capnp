using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", http = (), service = "main")],
);

const worker :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "dist/worker.js"),
    (name = "sampler_bg.wasm", wasm = embed "dist/sampler_bg.wasm"),
  ],
  compatibilityDate = "2026-01-01",
);
