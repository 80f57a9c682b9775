//! The vectors, run the same way natively and in the browser; `reference/` computes their expected values. Each function
//! returns how many cases it ran.

use quillmate_sampler::{Settings, distribution, draw, exp, sample_token, uniform};
use serde_json::Value;

const VECTORS: &str = include_str!("../vectors/contract.json");

/// All vectors; `section` names a list in them.
pub fn section(name: &str) -> Vec<Value> {
    let mut vectors: Value = serde_json::from_str(VECTORS).expect("contract.json is JSON");
    let Value::Array(cases) = vectors[name].take() else { panic!("contract.json has no list {name}") };
    assert!(!cases.is_empty(), "{name} is empty");
    cases
}

pub fn bits(value: &Value) -> u64 {
    let text = value.as_str().expect("bits are text");
    u64::from_str_radix(text.strip_prefix("0x").expect("bits begin with 0x"), 16).expect("bits are hex")
}

fn float(value: &Value) -> f64 {
    match value.as_str() {
        Some("-Infinity") => f64::NEG_INFINITY,
        Some("Infinity") => f64::INFINITY,
        Some("NaN") => f64::NAN,
        Some(other) => panic!("unknown number {other}"),
        None => value.as_f64().expect("a number"),
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(float).collect()
}

fn integer(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => text.parse().expect("a decimal integer"),
        None => value.as_u64().expect("an integer"),
    }
}

pub fn exp_pairs(cases: &[Value]) -> usize {
    for case in cases {
        let x = f64::from_bits(bits(&case[0]));
        assert_eq!(exp(x).to_bits(), bits(&case[1]), "exp({x:e})");
    }
    cases.len()
}

pub fn uniforms() -> usize {
    let cases = section("uniform");
    for case in &cases {
        let [seed, step, stream] = ["seed", "step", "stream"].map(|name| integer(&case[name]));
        assert_eq!(draw(seed, step, stream), integer(&case["draw"]), "{case}");
        assert_eq!(uniform(seed, step, stream).to_bits(), bits(&case["uniform_bits"]), "{case}");
    }
    cases.len()
}

pub fn samples() -> usize {
    let cases = section("sample");
    for case in &cases {
        let name = &case["name"];
        let logits = floats(&case["logits"]);
        let [temperature, top_p] = ["temperature", "top_p"].map(|name| float(&case[name]));
        let top_k = u32::try_from(integer(&case["top_k"])).expect("top_k fits");
        let settings = Settings::new(temperature, top_k, top_p).expect("settings are valid");
        let kept = distribution(&logits, &settings).expect("logits are valid");
        let ids: Vec<u64> = kept.ids().iter().map(|id| u64::from(*id)).collect();
        let expected: Vec<u64> = case["kept"].as_array().expect("kept").iter().map(integer).collect();
        assert_eq!(ids, expected, "{name}: kept");
        if let Some(probabilities) = case.get("probability_bits") {
            let expected: Vec<u64> = probabilities.as_array().expect("bits").iter().map(bits).collect();
            let found: Vec<u64> = kept.probabilities().iter().map(|p| p.to_bits()).collect();
            assert_eq!(found, expected, "{name}: probabilities");
        }
        let draws = case["draws"].as_array().expect("draws");
        assert!(!draws.is_empty(), "{name} has no draws");
        // Rows that are f32 numbers must give the same through the f32 door.
        let narrow: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
        let is_f32 = narrow.iter().zip(&logits).all(|(narrow, wide)| f64::from(*narrow) == *wide);
        for draw in draws {
            let (u, expected) = (float(&draw[0]), integer(&draw[1]) as u32);
            assert_eq!(sample_token(&logits, temperature, top_k, top_p, u), Ok(expected), "{name}: u = {u}");
            if is_f32 {
                assert_eq!(sample_token(&narrow, temperature, top_k, top_p, u), Ok(expected), "{name}: f32, u = {u}");
            }
        }
    }
    cases.len()
}

fn greedy_vectors(name: &str) -> Vec<Value> {
    let mut vectors: Value = serde_json::from_str(include_str!("../vectors/greedy.json")).expect("JSON");
    let Value::Array(cases) = vectors[name].take() else { panic!("greedy.json has no list {name}") };
    assert!(!cases.is_empty(), "{name} is empty");
    cases
}

/// Temperature 0, whatever the other settings hold: alone, on every path, and as rows of a batch. What is left out of a case
/// is as wrong as can be here.
pub fn greedy() -> usize {
    use quillmate_sampler::core::fast::{Path, sample_by};
    use quillmate_sampler::{sample, sample_batch};
    let cases = greedy_vectors("greedy");
    for case in &cases {
        let (name, logits) = (&case["name"], floats(&case["logits"]));
        let number = |name: &str| case.get(name).map_or(f64::NAN, float);
        let (temperature, u) = (number("temperature"), number("u"));
        // Rust's top-k is a u32; a cast goes to the nearest.
        let top_k = number("top_k") as u32;
        let token = u32::try_from(integer(&case["token"])).expect("an id");
        assert_eq!(sample_token(&logits, temperature, top_k, number("top_p"), u), Ok(token), "{name}");
        let narrow: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
        assert_eq!(sample_token(&narrow, temperature, top_k, number("top_p"), u), Ok(token), "{name}: f32");
        let settings = Settings::new(temperature, top_k, 1.0).expect("valid");
        assert_eq!(sample(&logits, &settings, u), Ok(token), "{name}");
        for path in Path::all() {
            let by = sample_by(path, &logits, &settings, u).expect("is accepted");
            assert_eq!(by.0, token, "{name}: {path:?}");
        }
        let rows = [&logits[..], &logits].concat();
        let sampled = Settings::new(1.0, 0, 1.0).expect("valid");
        let batch = sample_batch(&rows, logits.len(), &[settings, sampled], &[u, 0.0]).expect("fits");
        assert_eq!(batch[0], Ok(token), "{name}: in a batch");
        assert!(batch[1].is_ok(), "{name}: beside it");
    }
    cases.len()
}

/// The older contract's greedy choice.
pub fn mosaic_greedy() -> usize {
    use quillmate_sampler::mosaic::{SelectionStrategy, select};
    let cases = greedy_vectors("mosaic_greedy");
    for case in &cases {
        let logits = floats(&case["logits"]);
        let narrow: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
        let token = |decision: Result<quillmate_sampler::Decision, _>| {
            decision
                .map(|decision| u64::from(decision.token_id))
                .map_err(|error: quillmate_sampler::mosaic::MosaicError| error.to_string())
        };
        let expected = Ok(integer(&case["token"]));
        assert_eq!(token(select(&logits, &SelectionStrategy::Greedy, 0, 0)), expected, "{case}");
        if narrow.iter().zip(&logits).all(|(narrow, wide)| f64::from(*narrow).to_bits() == wide.to_bits()) {
            assert_eq!(token(select(&narrow, &SelectionStrategy::Greedy, 0, 0)), expected, "{case}: f32");
        }
    }
    cases.len()
}

/// 15 rows of 512 logits of a small story model.
fn golden_rows() -> Vec<Vec<f32>> {
    let bytes = include_bytes!("../vectors/golden_run.f32");
    let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
    logits.chunks(512).map(<[f32]>::to_vec).collect()
}

fn processor_vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/processors.json")).expect("JSON")
}

/// Rows before and after a list of processors, bit for bit, or the refusal.
pub fn processors() -> usize {
    use quillmate_sampler::{Position, Processors, Refusal, json, wire::processors::read_processors};
    let vectors = processor_vectors();
    let cases = vectors["processors"].as_array().expect("a list");
    assert!(!cases.is_empty());
    for case in cases {
        let name = &case["name"];
        let list = serde_json::json!({"processors": case["processors"]}).to_string();
        let list = json::Object::parse(&list).expect("an object").read(|it| read_processors(it.objects("processors")));
        let list: Processors = list.expect("valid");
        assert_eq!(serde_json::to_value(&list).expect("JSON"), case["processors"], "{name}: written as read");
        let [prompt, tokens] = ["prompt", "tokens"]
            .map(|name| serde_json::from_value::<Vec<u32>>(case[name].clone()).expect("a list of ids"));
        let position = Position { prompt: &prompt, tokens: &tokens, seed: integer(&case["seed"]) };
        let mut row = floats(&case["logits"]);
        let applied = list.apply(&mut row, &position, &mut |_, _| ());
        if let Some(code) = case.get("code") {
            assert_eq!(applied.expect_err("is refused").code(), code, "{name}");
            continue;
        }
        assert_eq!(applied, Ok(()), "{name}");
        let found: Vec<u64> = row.iter().map(|logit| logit.to_bits()).collect();
        let expected: Vec<u64> = case["row_bits"].as_array().expect("bits").iter().map(bits).collect();
        assert_eq!(found, expected, "{case}");
    }
    cases.len()
}

/// Numbers in messages.
pub fn numbers() -> usize {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/numbers.json")).expect("JSON");
    let cases = vectors["numbers"].as_array().expect("a list");
    assert!(!cases.is_empty());
    for case in cases {
        let refused = Settings::new(f64::from_bits(bits(&case[0])), 0, 1.0).expect_err("is refused").to_string();
        let text = case[1].as_str().expect("text");
        assert_eq!(refused, format!("temperature must be finite and at least 0, but is {text}"));
    }
    cases.len()
}

/// [`golden_run`] for runs with processors.
pub fn processed_runs() -> usize {
    whole_runs(&processor_vectors())
}

/// A run of 15 tokens straight; the same stored after 7 through JSON text and resumed; and the stored text of another
/// build, resumed. Returns how many runs were compared.
pub fn golden_run() -> usize {
    whole_runs(&serde_json::from_str(include_str!("../vectors/golden_run.json")).expect("JSON"))
}

fn whole_runs(golden: &Value) -> usize {
    use quillmate_sampler::{GeneratorState, Run};
    let rows = golden_rows();
    let runs = golden["runs"].as_array().expect("runs");
    assert!(!runs.is_empty());
    for case in runs {
        let stored = case["state_after_7"].as_str().expect("JSON text");
        let expected: Vec<u32> =
            case["tokens"].as_array().expect("tokens").iter().map(|id| integer(id) as u32).collect();
        let mut state = GeneratorState::from_json(stored).expect("the stored state is good");
        assert_eq!(state.tokens, expected[..7]);
        state.tokens.clear();
        let mut straight = Run::from_state(state);
        for (at, row) in rows.iter().enumerate() {
            if at == 7 {
                assert_eq!(straight.state().to_json(), stored, "the same state is the same text");
            }
            straight.step_with(row).expect("logits are valid");
        }
        assert_eq!(straight.tokens(), expected, "straight: {}", case["name"]);
        let mut resumed = Run::from_state(GeneratorState::from_json(stored).expect("good"));
        for row in &rows[7..] {
            resumed.step_with(row).expect("logits are valid");
        }
        assert_eq!(resumed, straight, "resumed: {}", case["name"]);
    }
    runs.len()
}

pub fn speculations() -> usize {
    use quillmate_sampler::{Speculation, speculative_step};
    let cases = section("speculative");
    for (at, case) in cases.iter().enumerate() {
        let (p, q) = (floats(&case["p"]), floats(&case["q"]));
        let found = speculative_step(
            &p,
            &q,
            integer(&case["draft"]) as u32,
            float(&case["u_accept"]),
            float(&case["u_resample"]),
        );
        let expected = Speculation {
            token: integer(&case["token"]) as u32,
            accepted: case["accepted"].as_bool().expect("a flag"),
        };
        assert_eq!(found, Ok(expected), "case {at}");
    }
    cases.len()
}

fn frame_vectors(name: &str) -> Vec<Value> {
    let mut vectors: Value = serde_json::from_str(include_str!("../vectors/frames.json")).expect("JSON");
    let Value::Array(cases) = vectors[name].take() else { panic!("frames.json has no list {name}") };
    assert!(!cases.is_empty(), "{name} is empty");
    cases
}

fn frame_bytes(case: &Value) -> Vec<u8> {
    let hex = case["bytes"].as_str().expect("hex");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Logits as bytes, and the bytes read.
pub fn frames() -> usize {
    use quillmate_sampler::Frame;
    let cases = frame_vectors("frames");
    for case in &cases {
        let (name, step, bytes) = (&case["name"], integer(&case["step"]), frame_bytes(case));
        let logits: Vec<f32> = floats(&case["logits"]).iter().map(|logit| *logit as f32).collect();
        let frame = match case.get("k") {
            Some(k) => Frame::sparse(step, &logits, integer(k) as u32),
            None => Frame::dense(step, &logits),
        };
        let frame = frame.expect("logits are valid");
        assert_eq!(frame.encode(), bytes, "{name}");
        assert_eq!(u64::from(frame.max_top_k().unwrap_or(0)), integer(&case["max_top_k"]), "{name}");
        assert_eq!(Frame::decode(&bytes), Ok(frame), "{name}");
    }
    cases.len()
}

/// Bytes that are no good frame.
pub fn refused_frames() -> usize {
    use quillmate_sampler::{Frame, Refusal};
    let cases = frame_vectors("refused");
    for case in &cases {
        let error = Frame::decode(&frame_bytes(case)).expect_err("is refused");
        assert_eq!(error.code(), case["code"], "{}", case["name"]);
        assert_eq!(error.index(), case.get("index").map(integer), "{}", case["name"]);
    }
    cases.len()
}

pub fn derived_seeds() -> usize {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/derive_seed.json")).expect("JSON");
    let cases = vectors["derive_seed"].as_array().expect("a list");
    assert!(!cases.is_empty());
    for case in cases {
        let label = case["label"].as_str().expect("text");
        let found = quillmate_sampler::derive_seed(integer(&case["root"]), label, integer(&case["attempt"]));
        assert_eq!(found, Ok(integer(&case["seed"])), "{}", case["name"]);
    }
    cases.len()
}

pub fn mosaics() -> usize {
    use quillmate_sampler::mosaic::{Sampler, SamplingConfig, SelectionStrategy, candidates};
    let cases = section("mosaic-splitmix64-top-k-top-p-v1");
    for (at, case) in cases.iter().enumerate() {
        let logits = floats(&case["logits"]);
        let top_k = integer(&case["top_k"]) as u32;
        let config = SamplingConfig::try_new(float(&case["temperature"]), top_k, float(&case["top_p"])).expect("valid");
        let list = |name: &str| -> Vec<u32> {
            case[name].as_array().expect("a list").iter().map(|id| integer(id) as u32).collect()
        };
        assert_eq!(candidates(&logits, &config).expect("valid").ids, list("candidates"), "case {at}");
        let mut sampler = Sampler::new(SelectionStrategy::Sample(config), integer(&case["seed"]));
        for (draw, expected) in list("tokens").into_iter().enumerate() {
            let decision = sampler.next(&logits).expect("valid");
            assert_eq!(decision.token_id, expected, "case {at}, draw {draw}");
        }
    }
    cases.len()
}
