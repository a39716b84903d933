//! Finds what can be changed in a file: every place where one small wrong change compiles.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Lit, ReturnType, Signature, Stmt, Type, UnOp};

/// One wrong change that could be made.
#[derive(Debug, Clone)]
pub struct Change {
    /// The file, from the root of the project.
    pub file: String,
    pub line: usize,
    /// The function, with its type.
    pub function: String,
    /// The bytes of the file that it replaces.
    pub bytes: Range<usize>,
    pub form: Form,
    pub from: String,
    pub to: String,
}

/// What stands in these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An expression, which becomes `to`.
    Expression,
    /// A statement, which is left out.
    Statement,
    /// Nothing: the beginning of a body, which returns `to` at once.
    Body,
}

impl Change {
    /// Names the change without its line, which moves with every edit.
    pub fn name(&self) -> String {
        format!("{} {}: {} → {}", self.file, self.function, short(&self.from), short(&self.to))
    }

    pub fn overlaps(&self, other: &Change) -> bool {
        self.file == other.file && self.bytes.start <= other.bytes.end && other.bytes.start <= self.bytes.end
    }
}

/// One line of at most so many characters.
fn short(code: &str) -> String {
    const MOST: usize = 90;
    let line = code.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST).chain(['…']).collect() }
}

/// All changes of one file.
pub fn changes(file: &str, text: &str) -> Vec<Change> {
    let parsed = syn::parse_file(text).unwrap_or_else(|fault| panic!("{file}: {fault}"));
    let mut finder = Finder { file, text, place: Vec::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    finder.found
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// The type and the function around what is visited.
    place: Vec<String>,
    found: Vec<Change>,
}

/// Methods, and what each becomes: the same call of another method.
const METHODS: [(&str, &str); 25] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("is_some_and", "is_none_or"),
    ("is_none_or", "is_some_and"),
    ("div_ceil", "div_euclid"),
    ("saturating_add", "saturating_sub"),
    ("saturating_sub", "saturating_add"),
    ("saturating_mul", "saturating_add"),
    ("wrapping_add", "wrapping_sub"),
    ("wrapping_sub", "wrapping_add"),
    ("checked_add", "checked_sub"),
    ("checked_sub", "checked_add"),
    ("checked_mul", "checked_add"),
    ("floor", "ceil"),
    ("ceil", "floor"),
    ("places_in", "places_in_at_least"),
    ("places_in_at_least", "places_in"),
    ("leading_zeros", "trailing_zeros"),
    ("trailing_zeros", "leading_zeros"),
];

/// Methods that say yes or no, which becomes the other.
const ANSWERS: [&str; 5] = ["is_empty", "contains", "contains_key", "starts_with", "ends_with"];

impl Finder<'_> {
    fn source(&self, node: &impl Spanned) -> &str {
        self.text.get(node.span().byte_range()).unwrap_or_default()
    }

    fn add(&mut self, node: &impl Spanned, form: Form, to: String) {
        let from = self.source(node).to_owned();
        self.add_at(node.span().byte_range(), form, from, to);
    }

    fn add_at(&mut self, bytes: Range<usize>, form: Form, from: String, to: String) {
        let line = 1 + self.text[..bytes.start].matches('\n').count();
        let (file, function) = (self.file.to_owned(), self.place.join("::"));
        self.found.push(Change { file, line, function, bytes, form, from, to });
    }

    /// The same node with a part of it replaced.
    fn replaced(&self, node: &impl Spanned, part: &impl Spanned, by: &str) -> String {
        let (whole, part) = (node.span().byte_range(), part.span().byte_range());
        format!("{}{by}{}", &self.text[whole.start..part.start], &self.text[part.end..whole.end])
    }

    fn condition(&mut self, condition: &Expr, values: &[&str]) {
        if !has_let(condition) {
            values.iter().for_each(|value| self.add(condition, Form::Expression, (*value).to_owned()));
        }
    }

    /// A function whose body can be changed.
    fn function(&mut self, signature: &Signature, body: &Block) {
        if signature.constness.is_some() || signature.ident.to_string().starts_with("prefetch") {
            return; // cannot look at a switch; changes only how long something takes
        }
        self.place.push(signature.ident.to_string());
        let after_brace = body.brace_token.span.open().byte_range().end;
        for value in values(&signature.output) {
            if !body.stmts.is_empty() && self.source(body).trim_matches(['{', '}', ' ', '\n']) != value {
                self.add_at(after_brace..after_brace, Form::Body, "the body".into(), format!("return {value}"));
            }
        }
        self.visit_block(body);
        self.place.pop();
    }
}

/// What a function may return in place of what it should.
fn values(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, kind) = output else { return vec![""] };
    let Type::Path(path) = kind.as_ref() else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "i128" => vec!["0", "1"],
        "f64" => vec!["0.0", "1.0"],
        "Option" => vec!["None"],
        "String" => vec!["String::new()"],
        _ => Vec::new(),
    }
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitXor(_) => &["|"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["+="],
        BinOp::DivAssign(_) => &["*="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Binary(both) if !has_let(expression) => {
                for other in others(&both.op) {
                    let to = self.replaced(both, &both.op, other);
                    self.add(both, Form::Expression, to);
                }
            }
            Expr::Unary(one) if matches!(one.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let to = self.source(&one.expr).to_owned();
                self.add(one, Form::Expression, to);
            }
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                if let Some((_, other)) = METHODS.iter().find(|(method, _)| *method == name) {
                    let to = self.replaced(call, &call.method, other);
                    self.add(call, Form::Expression, to);
                }
                if ANSWERS.contains(&name.as_str()) {
                    let to = format!("!{}", self.source(call));
                    self.add(call, Form::Expression, to);
                }
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => {
                    let value: u128 = number.base10_parse().unwrap_or(0);
                    self.add(literal, Form::Expression, format!("{}{}", value + 1, number.suffix()));
                }
                Lit::Float(number) => {
                    let value: f64 = number.base10_parse().unwrap_or(0.0);
                    let to = if value == 0.0 { 1.0 } else { value * 2.0 };
                    self.add(literal, Form::Expression, format!("{to:?}{}", number.suffix()));
                }
                _ => {}
            },
            Expr::If(choice) => self.condition(&choice.cond, &["true", "false"]),
            Expr::While(repeat) => self.condition(&repeat.cond, &["false"]),
            _ => {}
        }
        visit::visit_expr(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, &["true", "false"]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) | Expr::Binary(_), Some(_)) = statement
        {
            self.add(statement, Form::Statement, "nothing".into());
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // what is written for people
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|last| last.ident.to_string());
        if is_for_tests(&item.attrs) || matches!(of.as_deref(), Some("Debug" | "Display")) {
            return;
        }
        let name = match item.self_ty.as_ref() {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
            other => self.source(other).to_owned(),
        };
        self.place.push(name);
        visit::visit_item_impl(self, item);
        self.place.pop();
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // evaluated by the compiler, which has no switch to look at
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}
