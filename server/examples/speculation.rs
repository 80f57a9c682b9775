//! Tokens per second with and without speculation, as a ratio in one run:
//! `cargo run --release -p quillmate-server --example speculation -- SERVER MODEL`
//!
//! Two servers, one with `--drafts 0`, get the same requests in turn, one at a time; their texts are compared.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const STORIES: [(&str, &str); 3] = [
    (
        "plain",
        "The letter arrived on a Tuesday, three years after the man who wrote it had died. Marta turned it over and",
    ),
    (
        "dialogue",
        "\"Where is the key?\" said Marta. \"I gave the key to Jonas,\" said Anna. \"Jonas says he gave the key to",
    ),
    (
        "refrain",
        "The sea was grey. The sea was cold. The sea was grey, and the keeper of the light said that the sea was",
    ),
];

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

impl Server {
    fn start(program: &str, model: &str, data: &std::path::Path, drafts: &str) -> Outcome<Self> {
        let mut child = Command::new(program)
            .args(["--model", model, "--port", "0", "--drafts", drafts, "--log", "error", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").ok_or("no address")?.to_owned();
        let server = Self { child, address };
        while server.get("/api/health")?["status"] != "ready" {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn get(&self, path: &str) -> Outcome<Value> {
        Ok(serde_json::from_str(&ureq::get(format!("{}{path}", self.address)).call()?.body_mut().read_to_string()?)?)
    }

    /// Seconds from the first frame to the end, and the tokens.
    fn write(&self, body: &Value) -> Outcome<(f64, Value)> {
        let mut answer = ureq::post(format!("{}/api/runs", self.address))
            .header("content-type", "application/json")
            .send(body.to_string())?;
        let run: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let id = run["id"].as_str().ok_or("no id")?;
        let stream = ureq::get(format!("{}/api/runs/{id}/stream?from=0", self.address)).call()?;
        let mut reader = stream.into_body().into_reader();
        let mut head = [0; 5];
        loop {
            reader.read_exact(&mut head)?;
            if head[0] != 0 {
                break;
            }
        }
        let first = Instant::now();
        reader.read_to_end(&mut Vec::new())?;
        let seconds = first.elapsed().as_secs_f64();
        Ok((seconds, self.get(&format!("/api/runs/{id}"))?["tokens"].take()))
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, model] = &arguments[..] else { return Err("usage: speculation SERVER MODEL".into()) };
    let data = [tempfile::tempdir()?, tempfile::tempdir()?];
    let servers =
        [Server::start(program, model, data[0].path(), "0")?, Server::start(program, model, data[1].path(), "4")?];
    println!("| story | settings | tokens/s without | with | ratio | drafts right |\n|---|---|---|---|---|---|");
    for (name, prompt) in STORIES {
        for (settings, temperature, top_k, top_p) in [("greedy", 0.0, 0, 1.0), ("T 0.8, k 50, p .95", 0.8, 50, 0.95)] {
            let mut seconds = [0.0, 0.0];
            let mut tokens = 0;
            let before = servers[1].get("/api/health")?;
            for seed in 0..4 {
                let body = json!({"prompt": prompt, "seed": seed.to_string(), "length": 64, "settings":
                    {"temperature": temperature, "top_k": top_k, "top_p": top_p}});
                let (plain, with) = (servers[0].write(&body)?, servers[1].write(&body)?);
                if plain.1 != with.1 {
                    return Err(format!("{name}, seed {seed}: the texts differ").into());
                }
                tokens += plain.1.as_array().map_or(0, |tokens| tokens.len() - 1);
                seconds = [seconds[0] + plain.0, seconds[1] + with.0];
            }
            let after = servers[1].get("/api/health")?;
            let more =
                |of: &str| after["work"][of].as_f64().unwrap_or(0.0) - before["work"][of].as_f64().unwrap_or(0.0);
            let rate = seconds.map(|seconds| tokens as f64 / seconds);
            println!(
                "| {name} | {settings} | {:.1} | {:.1} | {:.2} | {:.0} of {:.0} |",
                rate[0],
                rate[1],
                rate[1] / rate[0],
                more("accepted"),
                more("drafted")
            );
        }
    }
    Ok(())
}
