//! A server in a child process and a client to speak to it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quillmate_sampler::{Environment, Frame, GeneratorState, Run};
use quillmate_server::routes::description;
use quillmate_server::store::Writer;
use serde_json::{Value, json};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Server {
    child: Child,
    pub address: String,
    agent: ureq::Agent,
}

/// An answer: its status and its body.
pub type Answer = (u16, Value);

impl Server {
    /// Starts a server and waits until its model is there.
    pub fn start(data: &Path, model: &str, flags: &[&str]) -> Self {
        Self::spawn(&mut command(data, model, flags))
    }

    /// Starts a server under limits of the system, as `ulimit` takes them, with its log in a file.
    pub fn limited(data: &Path, model: &str, limits: &str, flags: &[&str], log: &Path) -> Self {
        let command = command(data, model, flags);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")])
            .arg(command.get_program())
            .args(command.get_args());
        Self::spawn(shell.stderr(std::fs::File::create(log).unwrap()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        let server = Self { child, address, agent };
        server.until("the model is loaded", || server.get("/api/health").1["status"] == "ready");
        server
    }

    pub fn tiny(data: &Path, flags: &[&str]) -> Self {
        Self::start(data, "tiny", flags)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < PATIENCE, "{what}: not in time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path)
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path)
    }

    /// Makes a call without a body.
    pub fn ask(&self, method: &str, path: &str) -> Answer {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address));
        read(method, path, self.agent.run(request.body(()).unwrap()).unwrap())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, "application/json", &body.to_string())
    }

    pub fn post_text(&self, path: &str, kind: &str, body: &str) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.address)).header("content-type", kind);
        read("POST", path, request.send(body).unwrap())
    }

    pub fn raw(&self, path: &str, headers: &[(&str, &str)]) -> ureq::http::Response<ureq::Body> {
        let mut request = self.agent.get(format!("{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.call().unwrap()
    }

    /// Begins a run and gives its id.
    pub fn begin(&self, request: &Value) -> String {
        let (status, run) = self.post("/api/runs", request);
        assert_eq!(status, 201, "{run}");
        run["id"].as_str().unwrap().to_owned()
    }

    pub fn run(&self, id: &str) -> Value {
        let (status, run) = self.get(&format!("/api/runs/{id}"));
        assert_eq!(status, 200, "{run}");
        run
    }

    pub fn tokens(&self, id: &str) -> Vec<u32> {
        serde_json::from_value(self.run(id)["tokens"].clone()).unwrap()
    }

    /// Watches a run from a step on.
    pub fn watch(&self, id: &str, from: u64) -> Messages {
        let response = self.raw(&format!("/api/runs/{id}/stream?from={from}"), &[]);
        assert_eq!(response.status(), 200);
        Messages(Box::new(response.into_body().into_reader()))
    }

    /// Waits for a run's end: all its frames from a step on, and the end itself.
    pub fn follow(&self, id: &str, from: u64) -> (Vec<Vec<u8>>, Value) {
        self.watch(id, from).until_the_end()
    }

    /// Does it all: begins a run, follows it, gives its id, tokens and frames.
    pub fn write(&self, request: &Value) -> Written {
        let id = self.begin(request);
        self.written(&id)
    }

    pub fn written(&self, id: &str) -> Written {
        let start = self.run(id)["start"]["step"].as_u64().unwrap();
        let (frames, end) = self.follow(id, start);
        assert_eq!(end["status"], "finished", "{end}");
        Written { tokens: self.tokens(id), frames, text: self.run(id)["text"].as_str().unwrap().to_owned() }
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A finished run, as far as two of them can be compared.
#[derive(Debug, PartialEq)]
pub struct Written {
    pub tokens: Vec<u32>,
    pub frames: Vec<Vec<u8>>,
    pub text: String,
}

pub fn command(data: &Path, model: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quillmate-server"));
    command.args(["--model", model, "--port", "0", "--data"]).arg(data).args(flags);
    if !flags.contains(&"--log") {
        command.args(["--log", "error"]);
    }
    command.env_remove("QUILLMATE_TOKEN");
    command
}

/// Starts a server that must not start, and gives what it says.
pub fn refused(data: &Path, model: &str, flags: &[&str]) -> String {
    let output = command(data, model, flags).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Reads an answer, which must be one that the description of the API names.
fn read(method: &str, path: &str, mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let status = response.status().as_u16();
    let bytes = response.body_mut().read_to_vec().unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    check_answer(method, path, status, &body);
    (status, body)
}

/// Holds an answer of the API to its description.
fn check_answer(method: &str, path: &str, status: u16, body: &Value) {
    let path = path.split('?').next().unwrap();
    if !path.starts_with("/api/") {
        return;
    }
    let parts = |path: &'static str| path.split('/').collect::<Vec<_>>();
    let given: Vec<_> = path.split('/').collect();
    let paths = description()["paths"].as_object().unwrap();
    let fits = |path: &'static str| {
        let parts = parts(path);
        parts.len() == given.len()
            && parts.iter().zip(&given).all(|(part, given)| part == given || part.starts_with('{'))
    };
    let found = paths.iter().find(|(path, _)| fits(path));
    let call = found.map(|(path, item)| (path, &item[method.to_lowercase()])).filter(|(_, call)| !call.is_null());
    let Some((path, call)) = call else {
        assert!([401, 403, 404, 405].contains(&status), "{method} {path} is not described: {status} {body}");
        return;
    };
    let answer = &call["responses"][status.to_string()];
    assert!(!answer.is_null(), "{method} {path}: {status} is not described: {body}");
    let (path, method) = (path.replace('/', "~1"), method.to_lowercase());
    if answer["content"]["application/json"].is_object() {
        let schema = format!("/paths/{path}/{method}/responses/{status}/content/application~1json/schema");
        check(&schema, body);
    } else if answer["content"].is_null() {
        assert_eq!(*body, Value::Null, "{method} {path} {status}");
    }
}

/// Holds a message to a schema of the description.
fn check(schema: &str, message: &Value) {
    if let Err(error) = described(schema).validate(message) {
        panic!("{schema}: {error}\n{message}");
    }
}

/// A schema of the description, by its place in it.
pub fn described(schema: &str) -> Arc<jsonschema::Validator> {
    static SCHEMAS: Mutex<BTreeMap<String, Arc<jsonschema::Validator>>> = Mutex::new(BTreeMap::new());
    let mut schemas = SCHEMAS.lock().unwrap();
    let made = schemas.entry(schema.to_owned()).or_insert_with(|| {
        let mut root = description().clone();
        let schema = description().pointer(schema).and_then(Value::as_object).expect("a schema");
        root.as_object_mut().unwrap().extend(schema.clone());
        Arc::new(jsonschema::validator_for(&root).expect("a JSON Schema"))
    });
    Arc::clone(made)
}

/// The messages of a stream.
pub struct Messages(Box<dyn Read>);

impl Messages {
    /// The next message; `None` when the connection is gone.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_le_bytes(head[1..].try_into().unwrap());
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[0], payload))
    }

    /// The next frame.
    pub fn frame(&mut self) -> Vec<u8> {
        loop {
            match self.next().expect("a message") {
                (0, _) => {}
                (1, frame) => return frame,
                (kind, payload) => panic!("message {kind}: {}", String::from_utf8_lossy(&payload)),
            }
        }
    }

    pub fn until_the_end(mut self) -> (Vec<Vec<u8>>, Value) {
        let mut frames = Vec::new();
        loop {
            match self.next().expect("a message") {
                (0, _) => {}
                (1, frame) => frames.push(frame),
                (kind, payload) => {
                    let end = serde_json::from_slice(&payload).unwrap();
                    check(&format!("/x-stream-messages/{kind}"), &end);
                    assert!(self.next().is_none(), "something follows the end");
                    return (frames, end);
                }
            }
        }
    }
}

/// A request for a run of so many tokens.
pub fn request(prompt: &str, seed: u64, length: u32) -> Value {
    json!({
        "prompt": prompt,
        "seed": seed.to_string(),
        "settings": {"temperature": 0.8, "top_k": 50, "top_p": 0.95},
        "length": length,
    })
}

/// What a browser does: it samples from the frames.
pub fn sample(start: &Value, frames: &[Vec<u8>]) -> Run {
    let mut run = Run::from_state(GeneratorState::from_json(&start.to_string()).unwrap());
    for frame in frames {
        run.step_with_frame(&Frame::decode(frame).unwrap()).unwrap();
    }
    run
}

/// The model file, where the tests were given one.
pub fn model_file() -> Option<PathBuf> {
    let file = std::env::var_os("QUILLMATE_MODEL").map(PathBuf::from);
    let required = |name| std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "0" && value != "false");
    assert!(
        file.is_some() || !(required("CI") || required("QUILLMATE_REQUIRE_MODEL")),
        "QUILLMATE_MODEL must name the model file here; `make test` sees to it"
    );
    if file.is_none() {
        eprintln!("not tried: QUILLMATE_MODEL is not set");
    }
    file
}

/// Who writes what no model wrote.
pub fn nobody() -> Writer {
    let environment = Environment {
        build_features: None,
        server: None,
        cpu_features: None,
        kernels: None,
        threads: None,
        drafts: None,
    };
    Writer { end_tokens: Vec::new(), environment }
}
