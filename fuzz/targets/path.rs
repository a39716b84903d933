//! The canonical path (`tidegate_http::path`). The input is the path as it stands in a request line.
//!
//! - It is accepted, refused and rewritten exactly as a second, slow reading says ([`super::path_readers`]).
//! - What is canonical is its own canonical form, is visible ASCII, starts with one slash and has no two in a row.
//! - Origins of every kind known ([`READERS`]) find the same resource under the raw and the canonical form, and none of
//!   them finds a `.` or `..` segment in it, with or without blanks around.
//! - A match that ignores spellings takes what any of these origins takes for its path ([`super::spelling`]). Two paths with a
//!   line break between them are compared.

use std::borrow::Cow;

use tidegate_http::path::canonical_path;
use tidegate_http::query::{LONGEST_TARGET, canonical_query};

use super::cost::{self, USUAL, Work};
use super::path_readers::{READERS, canonical, is_dots};

/// What is measured.
fn work(data: &[u8]) -> Option<Work<'_>> {
    Some(Box::new(|| drop((canonical_path(data), canonical_query(data, LONGEST_TARGET)))))
}

/// The target.
pub fn path(data: &[u8]) {
    cost::is_bounded(data, USUAL, work);
    two_paths(data);
    let found = canonical_path(data);
    assert_eq!(found.as_deref().map_err(|fault| *fault), canonical(data).as_deref().map_err(|fault| *fault));
    let Ok(path) = found else { return };
    assert!(path.starts_with('/') && !path.contains("//") && path.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(path.len() <= 3 * data.len(), "grew from {} to {} bytes", data.len(), path.len());
    assert_eq!(path.as_bytes() == data, matches!(path, Cow::Borrowed(_)), "copied without need, or not copied");
    assert!(matches!(canonical_path(path.as_bytes()), Ok(Cow::Borrowed(again)) if again == path), "not a fixed point");
    for reader in READERS {
        let (raw, ours) = (reader.segments(data), reader.segments(path.as_bytes()));
        assert_eq!(raw, ours, "{reader:?} finds another resource");
        let dots = ours.iter().any(|segment| is_dots(segment));
        assert!(!dots, "{reader:?} finds a dot segment in {path}");
    }
    super::spelling::spelling(&path, &path);
}

/// Two paths with a line break between them, if both are accepted: one as a protected path, the other as a way round it.
fn two_paths(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n').map(canonical_path);
    if let (Some(Ok(one)), Some(Ok(other))) = (lines.next(), lines.next()) {
        super::spelling::spelling(&one, &other);
    }
}
