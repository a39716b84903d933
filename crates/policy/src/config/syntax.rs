//! Ways out of a text that is not YAML: what its lines say about the mistakes that are made most.

/// Returns a label and help for a line whose indentation fits none of the lines above it; `None` if it fits one.
pub fn indentation(text: &str, offset: usize) -> Option<(String, String)> {
    let (above, line) = around(text, offset)?;
    let indent = indent_of(line);
    let mut columns: Vec<usize> = Vec::new();
    let mut lines = above.iter().rev().filter(|line| is_content(line)).peekable();
    if lines.peek().is_some_and(|last| last.trim_end().ends_with(':') && indent > indent_of(last)) {
        return None;
    }
    for line in lines {
        let least = columns.last().copied().unwrap_or(usize::MAX);
        columns.extend(columns_of(line).into_iter().rev().filter(|column| *column < least));
    }
    if columns.is_empty() || columns.contains(&indent) {
        return None;
    }
    let nearest = columns.iter().map(|column| column.abs_diff(indent)).min()?;
    let spaces = if nearest == 1 { "one space".to_owned() } else { format!("{nearest} spaces") };
    let ways: Vec<String> = [(indent.checked_sub(nearest), "remove"), (indent.checked_add(nearest), "add")]
        .into_iter()
        .filter(|(column, _)| column.is_some_and(|column| columns.contains(&column)))
        .map(|(_, verb)| format!("{verb} {spaces}"))
        .collect();
    // as editors count them
    let shown: Vec<String> = columns.iter().map(|column| (column + 1).to_string()).collect();
    let noun = if shown.len() == 1 { "column" } else { "columns" };
    Some((
        format!("this line begins in column {}", indent + 1),
        format!(
            "{}: the lines above begin in {noun} {}, and the fields of one map, or the items of one list, begin in one column",
            ways.join(" or "),
            shown.join(", ")
        ),
    ))
}

/// Returns help for a colon that is read in another way than it was meant.
pub fn colon(text: &str, offset: usize) -> Option<String> {
    let (above, line) = around(text, offset)?;
    if let Some((number, key)) =
        above.iter().enumerate().rev().find(|(_, line)| is_content(line)).and_then(|(at, line)| {
            let (key, value) = line.trim_start().trim_start_matches("- ").split_once(':')?;
            let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (is_key && !value.is_empty() && !value.starts_with(' ')).then_some((at + 1, key))
        })
    {
        return Some(format!("write a space behind the colon in line {number}: `{key}: …`"));
    }
    let (_, value) = line.split_once(": ")?;
    let plain = !value.starts_with(['"', '\'', '{', '[']);
    (plain && value.contains(": ")).then(|| "a text with `: ` in it needs quotes".to_owned())
}

/// Returns the place of an escape that YAML does not know, in the quoted text that begins at `offset`, and help.
pub fn escape(text: &str, offset: usize) -> Option<(std::ops::Range<usize>, String)> {
    /// What may follow a backslash in double quotes; a line break, too.
    const KNOWN: &str = "0abt\tnvfre \"/\\N_LPxuU\n\r";
    let quoted = text.get(offset..)?.strip_prefix('"')?;
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return None,
            '\\' => {
                let (_, escaped) = characters.next()?;
                if !KNOWN.contains(escaped) {
                    let start = offset + 1 + at;
                    let help = match as_single(quoted) {
                        Some(text) => format!("use single quotes: '{text}'"),
                        None => format!(
                            "in double quotes a backslash is written twice, `\\\\{escaped}`; in single quotes it is itself, `'\\{escaped}'`"
                        ),
                    };
                    return Some((start..start + 1 + escaped.len_utf8(), help));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the text behind a double quote as it may stand in single quotes; `None` if it would mean something else there, or is long.
fn as_single(quoted: &str) -> Option<&str> {
    const LONGEST: usize = 60;
    let mut before = ' ';
    let end = quoted.find(|character| {
        let ends = character == '"' && before != '\\';
        before = character;
        ends
    })?;
    let text = quoted.get(..end)?;
    let means_itself = |escaped: &str| !escaped.starts_with(['0', 'a', 'b', 't', 'n', 'r', '"', '\\', 'u', 'x', 'U']);
    let same =
        !text.contains(['\'', '\n', '\r']) && !text.contains("\\\\") && text.split('\\').skip(1).all(means_itself);
    (same && text.chars().count() <= LONGEST).then_some(text)
}

/// The lines above an offset, and its own.
fn around(text: &str, offset: usize) -> Option<(Vec<&str>, &str)> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..)?.lines().next()?;
    Some((text.get(..start)?.lines().collect(), line))
}

fn is_content(line: &str) -> bool {
    let content = line.trim_start();
    !content.is_empty() && !content.starts_with('#')
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The columns in which something begins on a line: items of lists, then a field.
fn columns_of(line: &str) -> Vec<usize> {
    let mut column = indent_of(line);
    let mut columns = vec![column];
    let mut rest = line.trim_start_matches(' ');
    while let Some(item) = rest.strip_prefix("- ") {
        let content = item.trim_start_matches(' ');
        column += 2 + item.len() - content.len();
        columns.push(column);
        rest = content;
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> (String, usize) {
        (text.replace('↓', ""), text.find('↓').unwrap())
    }

    #[test]
    fn a_line_between_the_columns_of_those_above_is_told_them() {
        let told = |text: &str| {
            let (text, offset) = at(text);
            indentation(&text, offset)
        };
        let (label, help) = told("a:\n  - b: 1\n   ↓c: 2\n").unwrap();
        assert_eq!(label, "this line begins in column 4");
        assert!(
            help.starts_with("remove one space or add one space: the lines above begin in columns 5, 3, 1,"),
            "{help}"
        );
        let (label, help) = told("a:\n  b:\n    c: 1\n\n    # why\n     ↓d: 2\n").unwrap();
        assert_eq!(label, "this line begins in column 6");
        assert!(help.starts_with("remove one space: the lines above begin in columns 5, 3, 1,"), "{help}");
        assert_eq!(told("a:\n  b: 1\n  ↓c 2\n"), None);
        assert_eq!(told("a:\n     ↓c 2\n"), None, "a first line below a field may begin anywhere");
        assert_eq!(told("↓a"), None);
    }

    #[test]
    fn a_colon_without_a_space_and_one_too_many_are_told() {
        let told = |text: &str| {
            let (text, offset) = at(text);
            colon(&text, offset)
        };
        assert_eq!(
            told("a: 1\nlisten:\":80\"\nroutes↓: []\n").unwrap(),
            "write a space behind the colon in line 2: `listen: …`"
        );
        assert_eq!(told("a:\n  - name: b↓: c\n").unwrap(), "a text with `: ` in it needs quotes");
        assert_eq!(told("a: http://b\nc: 1↓\n"), None);
        assert_eq!(told("a: \"b: c\"↓\n"), None);
    }

    #[test]
    fn an_escape_that_is_none_is_found_behind_those_that_are() {
        let text = "a: \"\\\\x\\n\\d+\"";
        let (range, help) = escape(text, 3).unwrap();
        assert_eq!(&text[range], "\\d");
        assert!(help.contains("`\\\\d`") && help.contains("`'\\d'`"), "{help}");
        let (_, help) = escape(r#"a: "\.(png|jpg)$""#, 3).unwrap();
        assert_eq!(help, r"use single quotes: '\.(png|jpg)$'");
        assert_eq!(escape("a: \"\\t\" \\d", 3), None);
        assert_eq!(escape("a: '\\d'", 3), None);
    }
}
