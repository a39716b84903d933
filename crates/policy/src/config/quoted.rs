//! Operators' text in messages.

use super::redact;

/// Operator's text as it may stand in a message: short, one line, in one piece, and without the passwords of URLs.
pub fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    // before it is cut, as half a password is too much
    let text = redact::shown(text);
    let mut shown = String::with_capacity(text.len().min(4 * MAX) + 2);
    shown.push('`');
    let mut characters = text.chars();
    for character in characters.by_ref().take(MAX) {
        match character {
            // quotation marks and backslashes stay, as plain text is hard to read else; control characters and the like do not
            ' '..='~' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown.push('`');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_short_line() {
        assert_eq!(quoted("a\nb\u{7}\"c\""), "`a\\nb\\u{7}\"c\"`");
        assert_eq!(quoted(&"é".repeat(61)).chars().count(), 63);
        let long = format!("redis://gate:hunter2{}@valkey:6379", "x".repeat(80));
        assert_eq!(quoted(&long), format!("`redis://gate:{}…`", "*".repeat(47)));
    }
}
