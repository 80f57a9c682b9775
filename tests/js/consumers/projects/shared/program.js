import { run } from "./run.js";

run().then((report) => console.log(JSON.stringify(report)));
