//! `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in plain scalars.
//!
//! A variable's value is text, never YAML: it cannot add fields. It is not scanned for further variables.

/// Where variables come from: a name to its value, `None` when it is not set.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Why a text cannot be expanded; the range is in bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableFault {
    /// What is wrong; never holds a value.
    pub message: String,
    /// A way out.
    pub help: String,
}

/// Replaces the variables of `text`; `None` when it holds none.
///
/// # Errors
/// A variable that is not set and has no default, one that is set to nothing where a message asks for it, a name that
/// is none, or a `${` without its `}`.
pub fn expand(text: &str, environment: &Environment<'_>) -> Result<Option<String>, VariableFault> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, after)) = from.split_once('}') else {
            return Err(VariableFault { message: "`${` without its `}`".into(), help: "write `${NAME}`".into() });
        };
        expanded.push_str(&value_of(inside, environment)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(Some(expanded))
}

/// The value for what stands between the braces.
fn value_of(inside: &str, environment: &Environment<'_>) -> Result<String, VariableFault> {
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
    let (name, form) = inside.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(VariableFault {
            message: "a variable needs a name".into(),
            help: "names are letters, digits and `_`, and do not start with a digit".into(),
        });
    }
    // like the shell's `:-` and `:?`: a variable that is set to nothing counts as not set
    let value = environment(name).filter(|value| form.is_empty() || !value.is_empty());
    match (value, form.strip_prefix(":-"), form.strip_prefix(":?")) {
        (Some(value), ..) if is_form(form) => Ok(value),
        (None, Some(default), _) => Ok(default.to_owned()),
        (None, None, Some(message)) => Err(VariableFault {
            message: format!("variable `{name}` is not set"),
            help: if message.is_empty() { format!("set `{name}`") } else { message.to_owned() },
        }),
        (None, None, None) if form.is_empty() => Err(VariableFault {
            message: format!("variable `{name}` is not set"),
            help: format!("set it, or write `${{{name}:-default}}`"),
        }),
        _ => Err(VariableFault {
            message: format!("unknown form of variable `{name}`"),
            help: format!("write `${{{name}}}`, `${{{name}:-default}}` or `${{{name}:?message}}`"),
        }),
    }
}

fn is_form(form: &str) -> bool {
    form.is_empty() || form.starts_with(":-") || form.starts_with(":?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("8080".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${PORT}".into()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> Result<Option<String>, VariableFault> {
        expand(text, &environment)
    }

    #[test]
    fn variables_are_replaced_once() {
        assert_eq!(expanded("plain").unwrap(), None);
        assert_eq!(expanded(":${PORT}/${PORT}").unwrap().unwrap(), ":8080/8080");
        assert_eq!(expanded("${NESTED}").unwrap().unwrap(), "${PORT}");
        assert_eq!(expanded("${EMPTY}x").unwrap().unwrap(), "x");
        assert_eq!(expanded("${HOME_:-/srv}/a").unwrap().unwrap(), "/srv/a");
        assert_eq!(expanded("${EMPTY:-b}").unwrap().unwrap(), "b");
        assert_eq!(expanded("${PORT:?needed}").unwrap().unwrap(), "8080");
    }

    #[test]
    fn what_cannot_be_replaced_is_a_fault() {
        assert_eq!(expanded("${NO}").unwrap_err().message, "variable `NO` is not set");
        assert_eq!(expanded("${NO:?ask ops}").unwrap_err().help, "ask ops");
        assert_eq!(expanded("${EMPTY:?}").unwrap_err().help, "set `EMPTY`");
        assert_eq!(expanded("${PORT").unwrap_err().message, "`${` without its `}`");
        assert!(expanded("${}").is_err());
        assert!(expanded("${9}").is_err());
        assert_eq!(expanded("${PORT+1}").unwrap_err().message, "unknown form of variable `PORT`");
        assert_eq!(expanded("${NO-1}").unwrap_err().message, "unknown form of variable `NO`");
    }
}
