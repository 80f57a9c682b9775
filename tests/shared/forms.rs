//! What follows from the processors' own description of their parameters: their part of the state's JSON Schema, their types in
//! TypeScript, and the page's list of their names.

use quillmate_sampler::Processor;
use quillmate_sampler::core::processors::parameters::{List, Range, Visitor};

/// A file with a part that is made here.
pub struct Form {
    /// From the project's root.
    pub path: &'static str,
    /// The file's text, from the one it has.
    pub made: fn(&str) -> String,
}

/// All there are.
pub const FORMS: [Form; 3] = [
    Form { path: "src/wire/state.schema.json", made: schema },
    Form { path: "src/wasm/api.d.ts", made: types },
    Form { path: "www/src/newest.ts", made: |_| newest() },
];

/// A processor in all its versions, which have the same parameters.
struct Described {
    name: &'static str,
    versions: Vec<u32>,
    parameters: Parameters,
}

fn described() -> Vec<Described> {
    let mut list: Vec<Described> = Vec::new();
    for mut processor in Processor::every() {
        let mut parameters = Parameters::default();
        processor.visit(&mut parameters);
        let (name, version) = (processor.name(), processor.version());
        match list.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                assert_eq!(
                    last.parameters, parameters,
                    "{name}: versions of other parameters need schemas of their own"
                );
                last.versions.push(version);
            }
            None => list.push(Described { name, versions: vec![version], parameters }),
        }
    }
    list
}

/// Name, JSON Schema and TypeScript of each parameter; whether it must be given.
#[derive(Debug, Default, PartialEq)]
struct Parameters(Vec<(&'static str, String, &'static str, bool)>);

impl Parameters {
    fn push(&mut self, name: &'static str, schema: impl Into<String>, typescript: &'static str, required: bool) {
        self.0.push((name, schema.into(), typescript, required));
    }
}

impl Visitor for Parameters {
    fn number(&mut self, name: &'static str, _: &mut f64, range: Range) {
        let bounds = match range {
            Range::Finite => String::new(),
            Range::Above(least) => format!(", \"exclusiveMinimum\": {least}"),
            Range::AtLeast(least) => format!(", \"minimum\": {least}"),
            Range::Within(least, most) => format!(", \"minimum\": {least}, \"maximum\": {most}"),
            Range::Between(low, high) => format!(", \"exclusiveMinimum\": {low}, \"exclusiveMaximum\": {high}"),
        };
        self.push(name, format!("{{ \"type\": \"number\"{bounds} }}"), "number", true);
    }

    fn count(&mut self, name: &'static str, _: &mut u32, least: u32, default: Option<u32>) {
        let schema = match least {
            0 => "{ \"$ref\": \"#/$defs/token\" }",
            1 => "{ \"$ref\": \"#/$defs/count\" }",
            _ => panic!("{name}: no definition counts from {least}"),
        };
        self.push(name, schema, "number", default.is_none());
    }

    fn limit(&mut self, name: &'static str, _: &mut Option<u32>) {
        self.push(name, "{ \"$ref\": \"#/$defs/count\" }", "number", false);
    }

    fn flag(&mut self, name: &'static str, _: &mut bool) {
        self.push(name, "{ \"type\": \"boolean\" }", "boolean", false);
    }

    fn tokens(&mut self, name: &'static str, _: &mut Vec<u32>, list: List) {
        let required = list != List::OptionalSet;
        let least = if required { ", \"minItems\": 1" } else { "" };
        self.push(name, format!("{{ \"$ref\": \"#/$defs/tokens\"{least} }}"), "number[]", required);
    }

    fn sequences(&mut self, name: &'static str, _: &mut Vec<Vec<u32>>, required: bool) {
        let least = if required { " \"minItems\": 1," } else { "" };
        let items = "{ \"$ref\": \"#/$defs/tokens\", \"minItems\": 1 }";
        self.push(name, format!("{{ \"type\": \"array\",{least} \"items\": {items} }}"), "number[][]", required);
    }

    fn biases(&mut self, name: &'static str, _: &mut Vec<(u32, f64)>) {
        let pair = "[{ \"$ref\": \"#/$defs/token\" }, { \"type\": \"number\" }]";
        let items = format!("{{ \"type\": \"array\", \"prefixItems\": {pair}, \"minItems\": 2, \"maxItems\": 2 }}");
        let schema = format!("{{ \"type\": \"array\", \"minItems\": 1, \"items\": {items} }}");
        self.push(name, schema, "[id: number, bias: number][]", true);
    }
}

/// The text with what stands between the two marks replaced.
fn replaced(text: &str, before: &str, after: &str, with: &str) -> String {
    let start = text.find(before).unwrap_or_else(|| panic!("there is no {before:?}")) + before.len();
    let end = start + text[start..].find(after).unwrap_or_else(|| panic!("there is no {after:?}"));
    format!("{}{with}{}", &text[..start], &text[end..])
}

fn schema(text: &str) -> String {
    let one = |Described { name, versions, parameters }: Described| {
        let given = parameters.0.iter().filter(|parameter| parameter.3).map(|parameter| parameter.0);
        let required: Vec<_> = ["name", "version"].into_iter().chain(given).map(|name| format!("{name:?}")).collect();
        let version = match &versions[..] {
            [only] => format!("\"const\": {only}"),
            several => format!("\"enum\": {several:?}"),
        };
        let mut properties =
            vec![format!("\"name\": {{ \"const\": {name:?} }}"), format!("\"version\": {{ {version} }}")];
        properties.extend(parameters.0.iter().map(|(name, schema, ..)| format!("{name:?}: {schema}")));
        let properties: Vec<_> = properties.iter().map(|line| format!("            {line}")).collect();
        format!(
            "        {{\n          \"additionalProperties\": false,\n          \"required\": [{}],\n          \"properties\": {{\n{}\n          \
             }}\n        }}",
            required.join(", "),
            properties.join(",\n")
        )
    };
    let list: Vec<_> = described().into_iter().map(one).collect();
    replaced(text, "\"oneOf\": [\n", "\n      ]\n", &list.join(",\n"))
}

fn types(text: &str) -> String {
    let of = |version: u32| {
        let one = |Described { name, parameters, .. }: &Described| {
            // What `Window` has.
            let (window, own): (Vec<_>, Vec<_>) =
                parameters.0.iter().partition(|parameter| ["window", "prompt"].contains(&parameter.0));
            let mut fields = vec![format!("name: {name:?}")];
            for (name, _, typescript, required) in own {
                fields.push(format!("{name}{}: {typescript}", if *required { "" } else { "?" }));
            }
            let object = format!("{{ {} }}", fields.join("; "));
            if window.is_empty() { format!("  | {object}\n") } else { format!("  | ({object} & Window)\n") }
        };
        described().iter().filter(|one| one.versions.contains(&version)).map(one).collect::<String>()
    };
    assert!(
        described().iter().all(|one| one.versions.iter().all(|version| *version <= 2)),
        "there is a type to be added"
    );
    let text = replaced(text, "export type ProcessorV1 = { version: 1 } & (\n", ");", &of(1));
    replaced(&text, "export type ProcessorV2 = { version: 2 } & (\n", ");", &of(2))
}

fn newest() -> String {
    let mut text = "// Made by `make forms`.\n\n/** The newest version of every processor's rule, in the usual order (CONTRACT.md, “Processors”). */\n\
                    export const newest = {\n"
        .to_owned();
    for Described { name, versions, .. } in described() {
        text += &format!("  {name}: {},\n", versions[versions.len() - 1]);
    }
    text + "} as const;\n"
}
