//! contract.json, whole, in a real browser: `wasm-pack test --headless --chrome`. Prints how many cases of each kind
//! ran; `make test` compares the counts with the file.
#![cfg(target_arch = "wasm32")]

#[path = "shared/differential.rs"]
mod differential;
mod shared;

use quillmate_sampler::{Frame, GeneratorState, Run, Settings, Verdict, verify};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

// Without this line wasm-pack runs nothing in a browser, and exits 0.
wasm_bindgen_test_configure!(run_in_browser);

#[wasm_bindgen_test]
fn every_exp() {
    console_log!("ran {} exp cases", shared::exp_pairs(&shared::section("exp")));
}

#[wasm_bindgen_test]
fn every_hard_exp() {
    let hard: serde_json::Value = serde_json::from_str(include_str!("vectors/exp_hard.json")).expect("JSON");
    console_log!("ran {} exp_hard cases", shared::exp_pairs(hard["exp"].as_array().expect("a list")));
}

#[wasm_bindgen_test]
fn every_uniform() {
    console_log!("ran {} uniform cases", shared::uniforms());
}

#[wasm_bindgen_test]
fn every_sample() {
    console_log!("ran {} sample cases", shared::samples());
}

#[wasm_bindgen_test]
fn every_greedy_choice() {
    console_log!("ran {} greedy cases", shared::greedy());
    console_log!("ran {} mosaic_greedy cases", shared::mosaic_greedy());
}

#[wasm_bindgen_test]
fn every_speculation() {
    console_log!("ran {} speculative cases", shared::speculations());
}

#[wasm_bindgen_test]
fn every_derived_seed() {
    console_log!("ran {} derive_seed cases", shared::derived_seeds());
}

#[wasm_bindgen_test]
fn every_run_of_the_older_contract() {
    console_log!("ran {} mosaic cases", shared::mosaics());
}

/// States stored elsewhere after 7 tokens resume here, and the text stored here is the same.
#[wasm_bindgen_test]
fn a_run_stored_natively_resumes_here_and_back() {
    console_log!("ran {} golden cases", shared::golden_run());
}

#[wasm_bindgen_test]
fn every_processor() {
    console_log!("ran {} processor cases", shared::processors());
    console_log!("ran {} processed_run cases", shared::processed_runs());
}

#[wasm_bindgen_test]
fn every_frame() {
    console_log!("ran {} frame cases", shared::frames());
    console_log!("ran {} refused_frame cases", shared::refused_frames());
}

#[wasm_bindgen_test]
fn every_number_in_a_message() {
    console_log!("ran {} number cases", shared::numbers());
}

#[wasm_bindgen_test]
fn a_claim_is_checked_here_as_on_a_server() {
    let logits = [0.5f32, 1.5, -2.0, 1.5];
    let settings = Settings::new(0.8, 3, 0.9).expect("valid");
    let mut run = Run::new(vec![1], 42, settings);
    let start = run.state().clone();
    let mut frames = Vec::new();
    for step in 0..5 {
        let frame = Frame::for_settings(step, &logits, &settings).expect("valid");
        run.step_with_frame(&frame).expect("steps");
        frames.push(frame.encode());
    }
    let record = quillmate_sampler::Record { start, frames };
    let state: GeneratorState = run.state().clone();
    let claim = quillmate_sampler::Claim { tokens: run.tokens().to_vec(), state, frame_checksums: None };
    assert_eq!(verify(&record, &claim), Verdict::Match { steps: 5 });
}

/// The vectors of the wasm against the contract's steps, and both fall back at a boundary.
#[wasm_bindgen_test]
fn the_fast_path_gives_the_contracts_token_here() {
    use differential::{Answers, Counts, KINDS, draws, row};
    use quillmate_sampler::core::fast::{Decided, Path};
    let mut counts = Counts::default();
    for kind in KINDS {
        for (length, each) in [(65, 50), (1000, 50), (20_000, 5)] {
            let row = row(kind, 7, length);
            for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (0.8, 50, 0.95), (0.8, 0, 0.9), (1.2, 0, 1.0)] {
                let settings = Settings::new(temperature, top_k, top_p).expect("valid");
                counts.add(draws(&row, &settings, 3, each));
            }
        }
    }
    assert!(counts.coarse > counts.draws() / 5 && counts.fine > 0 && counts.compared > 0, "{counts:?}");
    let (row, settings) = (row("bell", 1, 300), Settings::default());
    let answers = Answers::new(&row, &settings);
    for &u in answers.boundaries().iter().filter(|u| **u < 1.0) {
        assert_eq!(counts.compare(Path::widest(), &row, &settings, u, answers.at(u)), Decided::Contract);
    }
    console_log!("compared {} draws: {counts:?}", counts.draws());
}

/// The JavaScript interface itself, in the browser, on the same vectors.
mod javascript {
    use js_sys::{Array, Float64Array, JSON, Reflect};
    use quillmate_sampler::wasm;
    use wasm_bindgen::{JsCast, JsValue};
    use wasm_bindgen_test::{console_log, wasm_bindgen_test};

    use super::shared;

    fn parse(value: &serde_json::Value) -> JsValue {
        JSON::parse(&value.to_string()).expect("JSON")
    }

    fn get(object: &JsValue, name: &str) -> JsValue {
        Reflect::get(object, &name.into()).expect("an object")
    }

    /// A list of numbers, "-Infinity" among them, as a Float64Array.
    fn numbers(list: &serde_json::Value) -> Float64Array {
        let numbers = list.as_array().expect("a list").iter();
        let numbers: Vec<f64> = numbers.map(|number| number.as_f64().unwrap_or(f64::NEG_INFINITY)).collect();
        Float64Array::from(numbers.as_slice())
    }

    fn settings(case: &serde_json::Value) -> JsValue {
        let [temperature, top_k, top_p] = ["temperature", "top_k", "top_p"].map(|name| &case[name]);
        parse(&serde_json::json!({"temperature": temperature, "topK": top_k, "topP": top_p}))
    }

    #[wasm_bindgen_test]
    fn every_sample_alone_in_a_batch_and_as_a_distribution() {
        let cases = shared::section("sample");
        for case in &cases {
            let (name, logits, settings) = (&case["name"], numbers(&case["logits"]), settings(case));
            let kept = wasm::distribution(&logits, &settings).expect("valid");
            let ids: Vec<f64> = Array::from(&get(&kept, "ids")).iter().map(|id| id.as_f64().expect("an id")).collect();
            let expected: Vec<f64> =
                case["kept"].as_array().expect("ids").iter().filter_map(|id| id.as_f64()).collect();
            assert_eq!(ids, expected, "{name}");
            if let Some(bits) = case.get("probability_bits") {
                let expected: Vec<u64> = bits.as_array().expect("bits").iter().map(shared::bits).collect();
                let found = get(&kept, "probabilities").unchecked_into::<Float64Array>().to_vec();
                assert_eq!(found.iter().map(|p| p.to_bits()).collect::<Vec<_>>(), expected, "{name}");
            }
            let draws = case["draws"].as_array().expect("draws");
            let (mut rows, mut uniforms) = (Vec::new(), Vec::new());
            for draw in draws {
                let u = draw[0].as_f64().expect("u");
                assert_eq!(
                    wasm::sample_token(&logits, &settings, &u.into()).ok().map(u64::from),
                    draw[1].as_u64(),
                    "{name}"
                );
                rows.extend(logits.to_vec());
                uniforms.push(u);
            }
            let (rows, uniforms) = (Float64Array::from(rows.as_slice()), Float64Array::from(uniforms.as_slice()));
            let batch = wasm::sample_batch(&rows, &logits.length().into(), &settings, &uniforms).expect("fits");
            let tokens: Vec<_> = batch.iter().map(|token| token.as_f64()).collect();
            assert_eq!(tokens, draws.iter().map(|draw| draw[1].as_f64()).collect::<Vec<_>>(), "{name}");
        }
        console_log!("ran {} JavaScript sample cases", cases.len());
    }

    #[wasm_bindgen_test]
    fn every_speculation() {
        let cases = shared::section("speculative");
        for case in &cases {
            let [draft, u_accept, u_resample] = ["draft", "u_accept", "u_resample"].map(|name| parse(&case[name]));
            let found =
                wasm::speculative_step(&numbers(&case["p"]), &numbers(&case["q"]), &draft, &u_accept, &u_resample);
            let found = found.expect("valid");
            assert_eq!(get(&found, "token").as_f64(), case["token"].as_f64(), "{case}");
            assert_eq!(get(&found, "accepted").as_bool(), case["accepted"].as_bool(), "{case}");
        }
        console_log!("ran {} JavaScript speculative cases", cases.len());
    }

    /// The text without speculation, through drafts that are right, wrong and right at first.
    #[wasm_bindgen_test]
    fn drafts_never_change_a_text() {
        let row = "(c) => Float32Array.from({length: 40}, (_, i) => (c.reduce((h, t) => h * 31 + t + 7, i) % 17) / 2)";
        let model = js_sys::Function::new_with_args("context", &format!("return ({row})(context)"));
        let rows = js_sys::Function::new_with_args(
            "context, drafts",
            &format!(
                "const row = {row}; const c = [...context]; return [row(c), ...[...drafts].map((d) => row((c.push(d), c)))]"
            ),
        );
        let settings = parse(&serde_json::json!({"temperature": 0.9, "topK": 5}));
        let prompt = Array::of2(&1.into(), &2.into());
        let plain = wasm::Generator::new(&model, &prompt, &41.into(), &settings).expect("valid");
        for _ in 0..24 {
            plain.step().expect("steps");
        }
        let expected = plain.tokens().to_vec();
        for wrong_from in [0usize, 2, 4] {
            let run = wasm::Generator::new(&JsValue::NULL, &prompt, &41.into(), &settings).expect("valid");
            while run.position() < 20.0 {
                let at = run.position() as usize;
                let draft =
                    |(i, token): (usize, &u32)| JsValue::from(if i < wrong_from { *token } else { (*token + 1) % 40 });
                let drafts: Array = expected[at..at + 4].iter().enumerate().map(draft).collect();
                let context: Array = [1, 2].into_iter().chain(run.tokens().to_vec()).map(JsValue::from).collect();
                let rows = rows.call2(&JsValue::NULL, &context, &drafts).expect("rows");
                let chain = run.step_with_drafts(&rows, &drafts).expect("steps");
                assert_eq!(get(&chain, "accepted").as_f64(), Some(wrong_from as f64));
            }
            assert_eq!(run.tokens().to_vec(), expected[..run.position() as usize]);
        }
    }

    /// Node 20, in which the other tests of the package run, has no half floats; this browser does.
    #[wasm_bindgen_test]
    fn half_floats_widen_exactly() {
        // Every finite half and -infinity, by its bits.
        let halves = "new Float16Array(Uint16Array.from({length: 65536}, (_, i) => i).filter((i) => (i & 0x7c00) < 0x7c00 || i === 0xfc00).buffer)";
        let halves =
            js_sys::Function::new_no_args(&format!("return {halves}")).call0(&JsValue::NULL).expect("Float16Array");
        let frame = wasm::Frame::dense(&0.into(), &halves).expect("valid");
        assert_eq!(frame.dtype(), "f16");
        let wide = frame.logits(&JsValue::UNDEFINED).expect("suffices").to_vec();
        let bits = (0..=u16::MAX).filter(|bits| bits & 0x7c00 < 0x7c00 || *bits == 0xfc00);
        let expected: Vec<f32> = bits.map(|bits| half::f16::from_bits(bits).to_f32()).collect();
        assert_eq!(wide.len(), 63_489);
        assert!(wide.iter().zip(&expected).all(|(found, expected)| found.to_bits() == expected.to_bits()));
        let (settings, u) = (parse(&serde_json::json!({"temperature": 9000, "topK": 50})), JsValue::from(0.4));
        let widened = js_sys::Float32Array::from(wide.as_slice());
        assert_eq!(
            wasm::sample_token(&halves, &settings, &u).expect("valid"),
            wasm::sample_token(&widened, &settings, &u).expect("valid")
        );
        let run = wasm::Generator::new(&JsValue::NULL, &Array::new(), &41.into(), &settings).expect("valid");
        let sparse = js_sys::Object::new();
        let part =
            js_sys::Function::new_no_args("return new Float16Array([2, 1.5])").call0(&JsValue::NULL).expect("two");
        for (name, value) in [("ids", Array::of2(&7.into(), &3.into()).into()), ("logits", part), ("vocab", 9.into())] {
            Reflect::set(&sparse, &name.into(), &value).expect("a fresh object");
        }
        let greedy = parse(&serde_json::json!({"temperature": 0}));
        assert_eq!(wasm::sample_token(&sparse, &greedy, &u).expect("valid"), 7);
        run.step_with(&halves).expect("steps");
    }

    /// Many generators, one call of a JavaScript model.
    #[wasm_bindgen_test]
    fn generators_step_together_as_they_step_alone() {
        let row = "const row = (c) => Float32Array.from({length: 40}, (_, i) => (c.reduce((h, t) => h * 31 + t + 7, i) % 17) / 2)";
        let model = js_sys::Function::new_with_args("context", &format!("{row}; return row(context)"));
        let batch_model = js_sys::Function::new_with_args("contexts", &format!("{row}; return contexts.map(row)"));
        let new = |seed: u32, model: &JsValue| {
            let settings = parse(&serde_json::json!({"temperature": 0.9, "topK": seed % 7}));
            wasm::Generator::new(model, &Array::of2(&1.into(), &2.into()), &seed.into(), &settings).expect("valid")
        };
        let alone: Vec<Vec<u32>> = (0..8)
            .map(|seed| {
                let generator = new(seed, &model);
                (0..10).map(|_| generator.step().expect("steps")).collect()
            })
            .collect();
        let together: Array = (0..8).map(|seed| JsValue::from(new(seed, &JsValue::NULL))).collect();
        for step in 0..10 {
            let tokens = wasm::step_batch(&together, &batch_model).expect("steps");
            for (token, alone) in tokens.iter().zip(&alone) {
                assert_eq!(token.as_f64(), Some(f64::from(alone[step])));
            }
        }
    }
}
