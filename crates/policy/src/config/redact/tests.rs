//! Claims about what of a text is shown.

use super::*;

fn source(text: &str) -> String {
    Redacted::new(text, &in_source(text), 0).text().into_owned()
}

#[test]
fn passwords_in_urls_are_shown_as_stars() {
    for (text, expected) in [
        ("redis://gate:hunter2@valkey:6379/1", "redis://gate:*******@valkey:6379/1"),
        ("redis://:hunter2@a:1,b:2", "redis://:*******@a:1,b:2"),
        ("redis://hunter2@a:1", "redis://*******@a:1"),
        ("redis://u:hu@nt/er:2@a:1", "redis://u:**********@a:1"),
        ("redis://u:1/hunter2@a:1", "redis://u:*********@a:1"),
        ("http://user:hu/nter2@host/x", "http://user:********@host/x"),
        ("`REDIS://u:hunter 2@a:1` and `b://c:d@e`", "`REDIS://u:********@a:1` and `b://c:*@e`"),
        ("user:hunter2@valkey:6379", "user:*******@valkey:6379"),
        ("[gate:hunter2@a, b]", "[gate:*******@a, b]"),
        ("redis://gate:${PASS}@a:1", "redis://gate:${PASS}@a:1"),
        ("redis://gate:${PASS:-hunter2}@a:1", "redis://gate:****************@a:1"),
    ] {
        assert_eq!(shown(text), expected);
        assert_eq!(source(&format!("  url: {text}")), format!("  url: {expected}"));
    }
}

#[test]
fn what_only_looks_like_a_password_stays() {
    for text in [
        "https://example.com:8443/@user",
        "http://[2001:db8::1]:80/a@b",
        "https://example.com/a:b?c@d",
        "mailto:ops@example.com",
        "write to ops@example.com: it helps",
        "path: ~/@[a-z]+:x",
        "redis://valkey-1:6379,valkey-2:6379/3",
    ] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn values_of_secret_words_are_shown_as_stars() {
    for (text, expected) in [
        ("password: hunter2 # old", "password: ******* # old"),
        ("password: \"hun\\\"ter2\"", "password: \"*********\""),
        ("password: 'hunter2", "password: '*******"),
        ("pasword: hunter2", "pasword: *******"),
        ("password:hunter2", "password:*******"),
        ("Password = hunter2", "Password = *******"),
        ("s: { url: a, password: hunter2, mode: x }", "s: { url: a, password: *******, mode: x }"),
        ("{\"password\":\"hunter2\",\"a\":1}", "{\"password\":\"*******\",\"a\":1}"),
        ("password: &one hunter2", "password: &one *******"),
        ("password: { value: hunter2, file: /a }", "password: { value: *******, file: /a }"),
        ("client_hmac: |\n  hunter2\n\n  hunter3\nlisten: x", "client_hmac: |\n  *******\n\n  *******\nlisten: x"),
        ("- token:\n    hunter2\n  listen: x", "- token:\n    *******\n  listen: x"),
        ("a: { token: hunter2,\n  b: c }", "a: { token: *******,\n  b: c }"),
        ("password: \"hunter\n  2\"\nb: c", "password: \"******\n  **\nb: c"),
        ("password: { password: hunter2 }", "password: { password: ******* }"),
        ("password:\n  url: a\n  password: hunter2", "password:\n  url: a\n  password: *******"),
        ("password:\n  text: hunter2\n  file: /a", "password:\n  text: *******\n  file: /a"),
    ] {
        assert_eq!(source(text), expected);
    }
}

#[test]
fn where_a_secret_is_may_be_read() {
    for text in [
        "password: { file: /run/secrets/pass }",
        "client_hmac: { env: KEY, previous_env: OLD_KEY }",
        "client_hmac:\n  file: /a  # the new one\n  \"previous_file\": /b\nlisten: x",
        "password: ${PASS}",
        "password: \"${PASS}\"",
        "password: *shared",
        "secrets:\n  - x",
        "match: { header: { x-token: a } }",
    ] {
        assert_eq!(source(text), text);
    }
}

#[test]
fn what_points_into_a_line_still_does() {
    let text = "password: hü€ter, url: x";
    let ranges = in_source(text);
    let redacted = Redacted::new(text, &ranges, 0);
    assert!(!redacted.text().contains('ü'), "{}", redacted.text());
    for (offset, _) in text.char_indices() {
        assert_eq!(redacted.text()[..redacted.at(offset)].chars().count(), text[..offset].chars().count());
    }
    // a part of it, as excerpts are
    let part = Redacted::new(&text[10..], &ranges, 10);
    assert_eq!(part.text(), redacted.text()[10..]);
    assert_eq!(Redacted::new(&text[..9], &ranges, 0).text(), "password:");
}

#[test]
fn any_text_keeps_its_lines_and_its_length() {
    // none of these has an end where it should
    for text in ["password: {", "password:", "://@", "@:", "a:@", "password: &", "token: \"\\", "\u{feff}password: \"é"]
    {
        let redacted = source(text);
        assert_eq!(redacted.chars().count(), text.chars().count(), "{text}");
        assert_eq!(shown(text).chars().count(), text.chars().count(), "{text}");
    }
}
