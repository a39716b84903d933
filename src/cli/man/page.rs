//! A manual page in the macros of man(7).

/// A page under way.
#[derive(Debug)]
pub struct Page {
    roff: String,
}

impl Page {
    /// With its name, its section of the manual, and what it is about in one line.
    pub fn new(name: &str, section: u8, about: &str) -> Page {
        let version = env!("CARGO_PKG_VERSION");
        let mut page =
            Page { roff: format!(".TH \"{}\" {section} \"\" \"tidegate {version}\"\n", name.to_uppercase()) };
        page.section("NAME");
        page.line(&format!("{} \\- {}", escaped(name), escaped(about)));
        page
    }

    /// A heading.
    pub fn section(&mut self, title: &str) {
        self.line(&format!(".SH \"{}\"", escaped(&title.to_uppercase())));
    }

    /// Running text; what stands between back quotes is set in bold.
    pub fn text(&mut self, text: &str) {
        self.line(".PP");
        self.running(text);
    }

    /// A term and what it means.
    pub fn item(&mut self, term: &str, text: &str) {
        self.line(".TP");
        self.line(&format!("\\fB{}\\fR", escaped(term)));
        self.running(text);
    }

    /// Lines as they are.
    pub fn verbatim(&mut self, text: &str) {
        self.line(".PP\n.nf");
        for line in text.lines() {
            self.line(&guarded(&escaped(line)));
        }
        self.line(".fi");
    }

    /// One line of roff.
    pub fn line(&mut self, line: &str) {
        self.roff.push_str(line);
        self.roff.push('\n');
    }

    /// The page.
    pub fn finish(self) -> String {
        self.roff
    }

    fn running(&mut self, text: &str) {
        let mut roff = String::new();
        for (at, part) in text.split('`').enumerate() {
            let part = escaped(part);
            if at % 2 == 1 { roff.push_str(&format!("\\fB{part}\\fR")) } else { roff.push_str(&part) }
        }
        for line in roff.lines() {
            self.line(&guarded(line));
        }
    }
}

/// roff reads a backslash as a command and turns a hyphen into a typographic one, which cannot be copied.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq")
}

/// A line that begins with a dot or an apostrophe would be a command.
fn guarded(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_a_command() {
        let mut page = Page::new("x", 1, "y");
        page.text(".so /etc/passwd\n'br `--a\\b`");
        let text = page.finish();
        assert!(text.ends_with(".PP\n\\&.so /etc/passwd\n\\&'br \\fB\\-\\-a\\eb\\fR\n"), "{text}");
    }
}
