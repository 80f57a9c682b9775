//! One file with all its mutants in it.
//!
//! | mutant | becomes |
//! |---|---|
//! | a body replaced by `R` | `if on(ID) { return R; }` before the body |
//! | `a + b` with another operator | `match (a, b) { (l, r) => if on(ID) { l - r } else { l + r } }` |
//! | `a == b` with another operator | the same with references to both, since a comparison moves nothing |
//! | `a && b`, `a \|\| b` | `let l = a;`, and `b` in each branch, where it may stay uncomputed |
//! | `a += b` | `match b { r => if on(ID) { a -= r } else { a += r } }` |
//! | `!a`, `-a` without its operator | `match a { v => if on(ID) { v } else { !v } }` |
//! | an arm deleted | the guard `!on(ID)` |
//! | a guard replaced by `true` or `false` | `on(ID) \|\| …`, `!on(ID) && …` |
//! | a field left to the base of its expression | `if on(ID) { base.field } else { value }` |
//!
//! Constants, patterns and types are left alone: no switch can be asked there.
//!
//! Comments `/*<1,2*/` and `/*>*/` around what belongs to mutants 1 and 2 let an error of the compiler be traced to them.

use crate::{Mutant, Place};
use proc_macro2::LineColumn;
use std::collections::BTreeMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, Member, Pat};

type Ids = Vec<(u32, String)>;

/// What is changed at a place of the file, and the places inside it that may hold more changes.
struct Change {
    whole: Range<usize>,
    ids: Ids,
    kind: Kind,
}

enum Kind {
    /// Statements before a body.
    Body,
    Logical {
        left: Range<usize>,
        op: String,
        right: Range<usize>,
    },
    Compare {
        left: Range<usize>,
        op: String,
        right: Range<usize>,
    },
    Compute {
        left: Range<usize>,
        op: String,
        right: Range<usize>,
    },
    Assign {
        left: Range<usize>,
        op: String,
        right: Range<usize>,
    },
    Unary {
        op: String,
        operand: Range<usize>,
    },
    /// The empty place after a pattern, or the guard's expression with its `if`.
    Guard {
        guard: Option<Range<usize>>,
        deleted: Ids,
    },
    Field {
        name: Option<String>,
        base: Range<usize>,
        value: Range<usize>,
    },
}

struct Finder<'a> {
    offsets: &'a dyn Fn(LineColumn) -> usize,
    text: &'a str,
    wanted: BTreeMap<(&'static str, Place), Ids>,
    changes: Vec<Change>,
    /// Of each `match` around: whether it has an arm for all that is left.
    complete: Vec<bool>,
    /// Those that are no Rust: `let` stands in no `||`.
    invalid: Vec<u32>,
}

/// The file with its mutants, the numbers of those that are in it, and of those that could not compile.
pub fn weave(text: &str, mutants: &[(u32, &Mutant)]) -> Result<(String, Vec<u32>, Vec<u32>), String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut starts = vec![0];
    starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
    let offsets = |place: LineColumn| {
        let start = starts[place.line - 1];
        text[start..].char_indices().nth(place.column).map_or(text.len(), |(at, _)| start + at)
    };
    let mut wanted: BTreeMap<(&'static str, Place), Ids> = BTreeMap::new();
    for (id, mutant) in mutants {
        let genre = match mutant.genre.as_str() {
            "FnValue" => "body",
            "BinaryOperator" | "UnaryOperator" => "operator",
            "MatchArm" => "arm",
            "MatchArmGuard" => "guard",
            "StructField" => "field",
            other => return Err(format!("the kind of mutant {id} is not known: {other}")),
        };
        wanted.entry((genre, mutant.span.start)).or_default().push((*id, mutant.replacement.clone()));
    }
    let mut finder =
        Finder { offsets: &offsets, text, wanted, changes: Vec::new(), complete: Vec::new(), invalid: Vec::new() };
    finder.visit_file(&file);
    let Finder { mut changes, invalid, .. } = finder;
    // Where two begin at one place: what is put before the body, then the outer one.
    changes
        .sort_by_key(|change| (change.whole.start, !matches!(change.kind, Kind::Body), usize::MAX - change.whole.end));
    let mut ids: Vec<u32> = Vec::new();
    for change in &changes {
        ids.extend(change.ids.iter().map(|(id, _)| id));
        if let Kind::Guard { deleted, .. } = &change.kind {
            ids.extend(deleted.iter().map(|(id, _)| id));
        }
    }
    Ok((render(text, 0..text.len(), &changes), ids, invalid))
}

impl Finder<'_> {
    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let span = node.span();
        (self.offsets)(span.start())..(self.offsets)(span.end())
    }

    fn take(&mut self, genre: &'static str, node: &impl Spanned) -> Ids {
        let LineColumn { line, column } = node.span().start();
        self.wanted.remove(&(genre, Place { line, column: column + 1 })).unwrap_or_default()
    }

    fn change(&mut self, whole: Range<usize>, ids: Ids, kind: Kind) {
        self.changes.push(Change { whole, ids, kind });
    }

    fn body(&mut self, block: &Block) {
        let Some(first) = block.stmts.first() else { return };
        let ids = self.take("body", first);
        let at = self.range(first).start;
        if !ids.is_empty() {
            self.change(at..at, ids, Kind::Body);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() {
            self.body(&item.block);
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() {
            self.body(&item.block);
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block);
            visit::visit_block(self, block);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        let bound = matches!(&*expr.left, Expr::Let(_)) || matches!(&*expr.right, Expr::Let(_)) || chain(&expr.left);
        let ids = self.take("operator", &expr.op);
        if bound {
            self.invalid.extend(ids.iter().map(|(id, _)| id));
        } else if !ids.is_empty() {
            let (left, right) = (self.range(&expr.left), self.range(&expr.right));
            let op = self.text[self.range(&expr.op)].to_owned();
            let kind = match expr.op {
                BinOp::And(_) | BinOp::Or(_) => Kind::Logical { left, op, right },
                BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                    Kind::Compare { left, op, right }
                }
                _ if op.ends_with('=') => Kind::Assign { left, op, right },
                _ => Kind::Compute { left, op, right },
            };
            self.change(self.range(expr), ids, kind);
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        let ids = self.take("operator", &expr.op);
        if !ids.is_empty() {
            let op = self.text[self.range(&expr.op)].to_owned();
            self.change(self.range(expr), ids, Kind::Unary { op, operand: self.range(&expr.expr) });
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_match(&mut self, expr: &'ast ExprMatch) {
        let last_resort = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        self.complete.push(expr.arms.iter().any(last_resort));
        visit::visit_expr_match(self, expr);
        self.complete.pop();
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        // An arm with a guard counts for nothing where all cases must be there.
        let complete = self.complete.last() == Some(&true);
        let deleted = if complete { self.take("arm", arm) } else { Vec::new() };
        let after = self.range(&arm.pat).end;
        match &arm.guard {
            Some((_, guard)) if !matches!(&**guard, Expr::Let(_)) && !chain(guard) => {
                let ids = self.take("guard", guard);
                if !ids.is_empty() || !deleted.is_empty() {
                    let range = self.range(guard);
                    self.change(after..range.end, ids, Kind::Guard { guard: Some(range), deleted });
                }
            }
            None if !deleted.is_empty() => self.change(after..after, Vec::new(), Kind::Guard { guard: None, deleted }),
            _ => {}
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expr: &'ast ExprStruct) {
        if let Some(base) = &expr.rest {
            for field in &expr.fields {
                let ids = self.take("field", field);
                let Member::Named(name) = &field.member else { continue };
                if !ids.is_empty() {
                    let shorthand = field.colon_token.is_none();
                    let kind = Kind::Field {
                        name: shorthand.then(|| name.to_string()),
                        base: self.range(base),
                        value: self.range(&field.expr),
                    };
                    self.change(self.range(&field.expr), ids, kind);
                    if !shorthand {
                        // The name is needed to read it from the base.
                        let last = self.changes.last_mut().expect("one was just put in");
                        last.ids[0].1 = name.to_string();
                    }
                }
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}

/// Whether `let` stands in a chain of `&&`.
fn chain(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, right, op: BinOp::And(_), .. }) => chain(left) || chain(right),
        _ => false,
    }
}

fn on(id: u32) -> String {
    format!("crate::mutant_switch::on({id})")
}

/// A mutant's own piece of text.
fn marked(id: u32, text: &str) -> String {
    format!("/*<{id}*/{text}/*>*/")
}

/// `if on(1) { … } else if on(2) { … } else { original }`
fn chosen(ids: &Ids, mutated: impl Fn(&str) -> String, original: &str) -> String {
    let branches: String =
        ids.iter().map(|(id, with)| format!("if {} {{ {} }} else ", on(*id), marked(*id, &mutated(with)))).collect();
    format!("{branches}{{ {original} }}")
}

/// The text of a range with the changes in it.
fn render(text: &str, range: Range<usize>, changes: &[Change]) -> String {
    let mut out = String::new();
    let mut at = range.start;
    let mut next = changes.partition_point(|change| change.whole.start < range.start);
    while let Some(change) = changes.get(next) {
        if change.whole.start > range.end || (change.whole.start == range.end && !range.is_empty()) {
            break;
        }
        let inner = &changes[next + 1..];
        out.push_str(&text[at..change.whole.start]);
        out.push_str(&change.render(text, inner));
        at = change.whole.end.max(at);
        next += 1;
        while changes.get(next).is_some_and(|after| after.whole.start < at) {
            next += 1;
        }
    }
    out.push_str(&text[at.min(range.end)..range.end]);
    out
}

impl Change {
    fn render(&self, text: &str, inner: &[Change]) -> String {
        let part = |range: &Range<usize>| render(text, range.clone(), inner);
        let ids = &self.ids;
        let changed = match &self.kind {
            Kind::Body => ids
                .iter()
                .map(|(id, with)| format!("if {} {{ {} }} ", on(*id), marked(*id, &format!("return {with};"))))
                .collect(),
            Kind::Logical { left, op, right } => {
                let right = part(right);
                let choice = chosen(ids, |with| format!("l {with} {right}"), &format!("l {op} {right}"));
                format!("({{ let l: bool = {}; {choice} }})", part(left))
            }
            Kind::Compare { left, op, right } => {
                let choice = chosen(ids, |with| format!("*l {with} *r"), &format!("*l {op} *r"));
                format!("(match (&({}), &({})) {{ (l, r) => {choice} }})", part(left), part(right))
            }
            Kind::Compute { left, op, right } => {
                let choice = chosen(ids, |with| format!("l {with} r"), &format!("l {op} r"));
                format!("(match ({}, {}) {{ (l, r) => {choice} }})", part(left), part(right))
            }
            Kind::Assign { left, op, right } => {
                let left = part(left);
                let choice = chosen(ids, |with| format!("{left} {with} r"), &format!("{left} {op} r"));
                format!("(match {} {{ r => {choice} }})", part(right))
            }
            Kind::Unary { op, operand } => {
                let choice = chosen(ids, |_| "v".to_owned(), &format!("{op}v"));
                format!("(match {} {{ v => {choice} }})", part(operand))
            }
            Kind::Guard { guard, deleted } => {
                let mut condition = guard.as_ref().map_or("true".to_owned(), part);
                for (id, with) in ids {
                    condition = match with.as_str() {
                        "true" => format!("({} || ({condition}))", on(*id)),
                        _ => format!("(!{} && ({condition}))", on(*id)),
                    };
                }
                for (id, _) in deleted {
                    condition = format!("(!{} && ({condition}))", on(*id));
                }
                format!(" if {condition}")
            }
            Kind::Field { name, base, value } => {
                let field = name.as_deref().unwrap_or(&ids[0].1);
                let choice = format!(
                    "if {} {{ {} }} else {{ {} }}",
                    on(ids[0].0),
                    marked(ids[0].0, &format!("({}).{field}", part(base))),
                    part(value)
                );
                if name.is_some() { format!("{field}: {choice}") } else { choice }
            }
        };
        let all: Vec<String> = match &self.kind {
            Kind::Guard { deleted, .. } => ids.iter().chain(deleted).map(|(id, _)| id.to_string()).collect(),
            _ => ids.iter().map(|(id, _)| id.to_string()).collect(),
        };
        format!("/*<{}*/{changed}/*>*/", all.join(","))
    }
}
