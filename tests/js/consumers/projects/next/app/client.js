"use client";
import { useEffect } from "react";
import { run } from "../run.js";

export default function Client({ server }) {
  useEffect(() => {
    run().then(
      (client) => (globalThis.report = [server, client]),
      (error) => (globalThis.report = { failed: String(error?.stack ?? error) }),
    );
  }, [server]);
  return <p>Next</p>;
}
