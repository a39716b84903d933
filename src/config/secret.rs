//! Secrets: from a file, from the environment, or written literally, which warns.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::compile::Context;
use super::fault::{Code, Diagnostic};
use super::read::{At, Field};
use super::schema::SecretSource;
use super::settings::Secret;
use super::shape::Either;
use super::source::Span;
use super::tree::Tree;

/// What `show` prints in the place of a secret.
pub const MASK: &str = "‹secret›";

/// Fewer bytes than this can be guessed.
const WEAK_BELOW: usize = 16;
/// No key is longer; a device without end must not fill the memory.
const MAX_BYTES: u64 = 64 << 10;

/// The secret; `None` when it cannot be had, which has been told.
pub fn secret(at: &At<Either<String, SecretSource>>, context: &mut Context<'_>) -> Option<Secret> {
    let secret = match &at.value {
        Either::Short(text) => {
            let fault = Diagnostic::new(Code::LITERAL_SECRET, at.span, "a secret is written literally")
                .label("whoever reads this file can read it");
            context.faults.push(if text == MASK {
                fault.help("this is the mask that `show` prints, not the secret")
            } else {
                fault.help("write `{ file: PATH }` or `{ env: NAME }`")
            });
            text.clone().into_bytes()
        }
        Either::Long(source) => match (&source.file, &source.env) {
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
            (Field::Absent, Field::Absent) => {
                context.faults.push(
                    Diagnostic::error(Code::MISSING_FIELD, at.span, "`file` or `env` is missing")
                        .label("needs one of them"),
                );
                return None;
            }
            (file, env) => {
                if file.is_present() && env.is_present() {
                    context.faults.push(
                        Diagnostic::error(Code::CONFLICT, at.span, "both `file` and `env`").label("needs one of them"),
                    );
                }
                return None;
            }
        },
    };
    strong(secret, at.span, context)
}

/// A secret as the effective configuration writes it: where it comes from, or a mask.
pub fn written(secret: &Either<String, SecretSource>) -> Option<Tree> {
    match secret {
        Either::Short(_) => Some(Tree::text(MASK)),
        Either::Long(long) => match (long.file.value(), long.env.value()) {
            (Some(path), _) => Some(Tree::map([("file", Tree::text(path))])),
            (_, Some(name)) => Some(Tree::map([("env", Tree::text(name))])),
            _ => None,
        },
    }
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
