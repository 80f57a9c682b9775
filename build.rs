//! Tells the crate which target it is built for, so that a record can say so.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").expect("cargo names the target");
    println!("cargo::rustc-env=QUILLMATE_TARGET={target}");
}
