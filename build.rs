//! Tells the crate what it is built for and with, so that a record can say so.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").expect("cargo names the target");
    println!("cargo::rustc-env=QUILLMATE_TARGET={target}");
    // The crate's own features by name (but `bindings`, which changes nothing that is computed), then the instruction sets the compiler may use, each with a plus.
    let mut features: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter_map(|name| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|name| name != "default" && name != "bindings")
        .collect();
    features.sort();
    let mut sets: Vec<String> = std::env::var("CARGO_CFG_TARGET_FEATURE")
        .unwrap_or_default()
        .split(',')
        .filter(|set| !set.is_empty())
        .map(|set| format!("+{set}"))
        .collect();
    sets.sort();
    sets.dedup();
    features.extend(sets);
    println!("cargo::rustc-env=QUILLMATE_FEATURES={}", features.join(" "));
}
