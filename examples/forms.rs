//! `make forms`: writes what follows from the processors' description of their parameters into the files that hold it.

#[path = "../tests/shared/forms.rs"]
mod forms;

fn main() -> std::io::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for forms::Form { path, made } in forms::FORMS {
        let path = root.join(path);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, made(&text))?;
    }
    Ok(())
}
