//! Secrets: from a file, from the environment, or written literally, which warns.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::compile::Context;
use super::fault::{Code, Diagnostic};
use super::read::{At, Field};
use super::schema::{KeySource, SecretSource};
use super::settings::Secret;
use super::shape::Either;
use super::span::Span;
use super::tree::Tree;

/// What `show` prints in the place of a secret.
pub const MASK: &str = "‹secret›";

/// Fewer bytes than this can be guessed.
const WEAK_BELOW: usize = 16;
/// No key is longer; a device without end must not fill the memory.
const MAX_BYTES: u64 = 64 << 10;

/// The secret; `None` when it cannot be had, which has been told.
pub fn secret(at: &At<Either<String, SecretSource>>, context: &mut Context<'_>) -> Option<Secret> {
    match &at.value {
        Either::Short(text) => literal(text, at.span, context),
        Either::Long(source) => {
            missing(&source.file, &source.env, at.span, context);
            sourced([("file", &source.file), ("env", &source.env)], at.span, context)
        }
    }
}

/// A key, and the one before it while it is being replaced; of either `None` when it is not given or cannot be had, which has been
/// told.
pub fn key(at: &At<Either<String, KeySource>>, context: &mut Context<'_>) -> (Option<Secret>, Option<Secret>) {
    let source = match &at.value {
        Either::Short(text) => return (literal(text, at.span, context), None),
        Either::Long(source) => source,
    };
    missing(&source.file, &source.env, at.span, context);
    let key = sourced([("file", &source.file), ("env", &source.env)], at.span, context);
    let of_before = [("previous_file", &source.previous_file), ("previous_env", &source.previous_env)];
    let previous = sourced(of_before, at.span, context);
    if key.is_some() && key == previous {
        let [file, env] = of_before.map(|(_, field)| field.get().map(|at| at.span));
        context.faults.push(
            Diagnostic::error(Code::BAD_SECRET, file.or(env).unwrap_or(at.span), "the previous key is the key itself")
                .label("holds the same as the new one")
                .help("every shared limit would count twice: name the key of before, or remove this"),
        );
    }
    (key, previous)
}

/// A secret as the effective configuration writes it: where it comes from, or a mask.
pub fn written(secret: &Either<String, SecretSource>) -> Option<Tree> {
    match secret {
        Either::Short(_) => Some(Tree::text(MASK)),
        Either::Long(long) => Some(Tree::map([one_of([("file", &long.file), ("env", &long.env)])?])),
    }
}

/// The same of a key and the one before it.
pub fn written_key(key: &Either<String, KeySource>) -> Option<Tree> {
    let long = match key {
        Either::Short(_) => return Some(Tree::text(MASK)),
        Either::Long(long) => long,
    };
    let key = one_of([("file", &long.file), ("env", &long.env)])?;
    let previous = one_of([("previous_file", &long.previous_file), ("previous_env", &long.previous_env)]);
    Some(Tree::map(std::iter::once(key).chain(previous)))
}

/// A place that a secret may come from, with its word.
type Place<'f> = (&'static str, &'f Field<String>);

/// The one that is given.
fn one_of(places: [Place; 2]) -> Option<(&'static str, Tree)> {
    places.into_iter().find_map(|(word, field)| Some((word, Tree::text(field.value()?))))
}

/// A secret that stands in the policy file itself.
fn literal(text: &str, at: Span, context: &mut Context<'_>) -> Option<Secret> {
    let fault = Diagnostic::new(Code::LITERAL_SECRET, at, "a secret is written literally")
        .label("whoever reads this file can read it");
    context.faults.push(if text == MASK {
        fault.help("this is the mask that `show` prints, not the secret")
    } else {
        fault.help("write `{ file: PATH }` or `{ env: NAME }`")
    });
    strong(text.as_bytes().to_vec(), at, context)
}

/// Reports a map without a secret.
fn missing(file: &Field<String>, env: &Field<String>, at: Span, context: &mut Context<'_>) {
    if matches!((file, env), (Field::Absent, Field::Absent)) {
        context
            .faults
            .push(Diagnostic::error(Code::MISSING_FIELD, at, "`file` or `env` is missing").label("needs one of them"));
    }
}

/// The secret in a file or in the environment, in this order; `None` if neither is given.
fn sourced([file, env]: [Place; 2], whole: Span, context: &mut Context<'_>) -> Option<Secret> {
    let secret = match (file.1, env.1) {
        (Field::Set { at, .. }, Field::Absent) => from_file(at, context)?,
        (Field::Absent, Field::Set { at, .. }) => {
            let value = (context.environment)(&at.value);
            if value.is_none() {
                context.faults.push(
                    Diagnostic::error(Code::BAD_SECRET, at.span, format!("variable {} is not set", at.shown))
                        .label("holds no secret"),
                );
            }
            value?.into_bytes()
        }
        (one, other) => {
            if one.is_present() && other.is_present() {
                let both = format!("both `{}` and `{}`", file.0, env.0);
                context.faults.push(Diagnostic::error(Code::CONFLICT, whole, both).label("needs one of them"));
            }
            return None;
        }
    };
    strong(secret, whole, context)
}

/// Reads a secret's file.
fn from_file(at: &At<String>, context: &mut Context<'_>) -> Option<Vec<u8>> {
    match read(&context.directory.join(&at.value)) {
        Ok(bytes) => Some(bytes),
        Err(cause) => {
            let fault =
                Diagnostic::error(Code::BAD_SECRET, at.span, format!("cannot use the secret file {}", at.shown))
                    .label(cause.clone());
            context.faults.push(if cause.contains("readable by others") {
                fault.help("take the right away: `chmod o-r FILE`")
            } else {
                fault
            });
            None
        }
    }
}

/// The bytes of a file that only its owner and group may read, without one line break at the end.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(told)?;
    // asked of the open file, so that nobody can swap it in between
    let metadata = file.metadata().map_err(told)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    if metadata.permissions().mode() & 0o004 != 0 {
        return Err("it is readable by others".into());
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 64KiB".into());
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    Ok(bytes)
}

fn strong(secret: Vec<u8>, at: Span, context: &mut Context<'_>) -> Option<Secret> {
    if secret.is_empty() {
        context.faults.push(Diagnostic::error(Code::BAD_SECRET, at, "the secret is empty").label("holds no byte"));
        return None;
    }
    if secret.len() < WEAK_BELOW {
        context.faults.push(
            Diagnostic::new(Code::WEAK_SECRET, at, "the secret is short")
                .label("fewer than 16 bytes can be guessed")
                .help("make one with `head -c 32 /dev/urandom | base64`"),
        );
    }
    Some(Secret(secret))
}
