import { defineConfig } from "vite";

// In development the server of the API runs beside Vite: QUILLMATE_API=http://127.0.0.1:7473 npm run dev
const api = process.env["QUILLMATE_API"] ?? "http://127.0.0.1:7473";

export default defineConfig({
  // The page is one package of a larger repository and imports the wasm package beside it.
  server: { proxy: { "/api": { target: api, changeOrigin: true, headers: { origin: api } } }, fs: { allow: [".."] } },
  worker: { format: "es" },
  build: {
    target: "es2022",
    // Nothing is inlined: a strict Content-Security-Policy lets scripts, styles and wasm come from files only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The notices of what is bundled go with it.
    license: { fileName: "licences.md" },
  },
});
