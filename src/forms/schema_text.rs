//! JSON Schemas as text: laid out for a file, and as TypeScript types.

use std::fmt::Write as _;

use serde_json::Value;

/// JSON with everything on one line that fits into 130 columns.
pub fn lay_out(value: &Value, indent: usize, text: &mut String) {
    let line = one_line(value);
    let column = text.len() - text.rfind('\n').map_or(0, |at| at + 1);
    let (open, close, items): (_, _, Vec<(Option<&String>, &Value)>) = match value {
        _ if column + line.len() <= 130 => return text.push_str(&line),
        Value::Object(fields) => ('{', '}', fields.iter().map(|(name, value)| (Some(name), value)).collect()),
        Value::Array(list) => ('[', ']', list.iter().map(|value| (None, value)).collect()),
        _ => return text.push_str(&line),
    };
    text.push(open);
    for (at, (name, value)) in items.into_iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 2));
        if let Some(name) = name {
            let _ = write!(text, "{name:?}: ");
        }
        lay_out(value, indent + 2, text);
    }
    let _ = write!(text, "\n{}{close}", " ".repeat(indent));
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name:?}: {}", one_line(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        scalar => scalar.to_string(),
    }
}

/// The declaration of a type, with its description as a comment.
pub fn declaration(name: &str, schema: &Value) -> String {
    let mut text = String::new();
    document(schema, "", &mut text);
    let one = typescript(schema, "");
    let _ = if one.starts_with("{\n") && one.ends_with("\n}") {
        writeln!(text, "export interface {name} {one}")
    } else if one.starts_with('\n') {
        writeln!(text, "export type {name} ={one};")
    } else if one.contains('\n') || "export type  = ;".len() + name.len() + one.len() <= 130 {
        writeln!(text, "export type {name} = {one};")
    } else {
        writeln!(text, "export type {name} =\n  | {};", one.replace(" | ", "\n  | "))
    };
    text
}

/// The description as a comment, wrapped.
fn document(schema: &Value, indent: &str, text: &mut String) {
    let Some(description) = schema["description"].as_str() else { return };
    if indent.len() + description.len() <= 110 {
        let _ = writeln!(text, "{indent}/** {description} */");
        return;
    }
    let _ = write!(text, "{indent}/**");
    let mut column = usize::MAX;
    for word in description.split(' ') {
        if column.saturating_add(word.len()) >= 120 {
            let _ = write!(text, "\n{indent} *");
            column = indent.len() + 2;
        }
        let _ = write!(text, " {word}");
        column += 1 + word.len();
    }
    let _ = writeln!(text, "\n{indent} */");
}

/// The TypeScript type of what a schema describes.
pub fn typescript(schema: &Value, indent: &str) -> String {
    if schema == true {
        return "unknown".to_owned();
    }
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Value::Array(list) = &schema["enum"] {
        return list.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Value::Array(list) = &schema["anyOf"] {
        return list.iter().map(|one| typescript(one, indent)).collect::<Vec<_>>().join(" | ");
    }
    if let Value::Array(list) = &schema["oneOf"] {
        if list.iter().all(|one| one.get("const").is_some() || one.get("enum").is_some()) {
            return list.iter().map(|one| typescript(one, indent)).collect::<Vec<_>>().join(" | ");
        }
        let short = list.iter().map(|one| typescript(one, indent)).collect::<Vec<_>>().join(" | ");
        let union = if !short.contains('\n') && indent.len() + short.len() <= 100 {
            short
        } else {
            let one = |one| format!("\n{indent}  | {}", typescript(one, &format!("{indent}    ")));
            list.iter().map(one).collect::<String>()
        };
        // A choice of some fields, beside others.
        return if schema["properties"].is_object() {
            let end = if union.contains('\n') { format!("\n{indent}") } else { String::new() };
            format!("{} & ({union}{end})", object(schema, indent))
        } else {
            union
        };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        kind => vec![kind.as_str().unwrap_or_else(|| panic!("no type for {schema}"))],
    };
    let one = |kind: &str| match kind {
        "integer" | "number" => "number".to_owned(),
        "array" => {
            let items = typescript(&schema["items"], indent);
            if schema["minItems"] == 2 && schema["maxItems"] == 2 {
                return format!("[{items}, {items}]");
            }
            if items.contains(" | ") { format!("({items})[]") } else { format!("{items}[]") }
        }
        "object" => object(schema, indent),
        other => other.to_owned(),
    };
    kinds.into_iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// An object type: on one line where none of its fields has a comment.
fn object(schema: &Value, indent: &str) -> String {
    let Some(fields) = schema["properties"].as_object() else { return "Record<string, unknown>".to_owned() };
    let required = |name: &String| schema["required"].as_array().is_some_and(|list| list.iter().any(|one| one == name));
    let mark = |name: &String| if required(name) { "" } else { "?" };
    if fields.values().all(|field| field.get("description").is_none()) {
        let fields: Vec<_> =
            fields.iter().map(|(name, field)| format!("{name}{}: {}", mark(name), typescript(field, indent))).collect();
        return format!("{{ {} }}", fields.join("; "));
    }
    let inner = format!("{indent}  ");
    let mut text = "{\n".to_owned();
    for (name, field) in fields {
        document(field, &inner, &mut text);
        let _ = writeln!(text, "{inner}{name}{}: {};", mark(name), typescript(field, &inner));
    }
    text + indent + "}"
}
