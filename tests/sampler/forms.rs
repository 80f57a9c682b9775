//! The files that follow from the processors' description of their parameters are as it makes them.

#[path = "../shared/forms.rs"]
mod made_forms;

#[test]
fn forms_are_as_the_processors_describe_them() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for made_forms::Form { path, made } in made_forms::FORMS {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        assert!(made(&text) == text, "{path} is not as the processors describe themselves; `make forms` mends it");
    }
}
