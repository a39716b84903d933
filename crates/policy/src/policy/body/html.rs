//! Follows a page far enough to know where in it a value would stand, by the tokenizer of the HTML standard (section 13.2.5).

/// Elements whose content no escape applies to.
const RAW: [&str; 8] = ["script", "style", "iframe", "noembed", "noframes", "noscript", "xmp", "plaintext"];

/// Attributes that hold an address. A value may be a part of one, never its beginning, which says what the address does.
const ADDRESSES: [&str; 9] = ["href", "src", "action", "formaction", "data", "poster", "ping", "cite", "xlink:href"];

/// The place in a page.
#[derive(Debug, Default)]
pub struct Html {
    at: At,
    /// The name of the tag that is open, with its slash, in lower case.
    tag: String,
    /// The name of the attribute, in lower case, and its value so far.
    attribute: String,
    value: String,
    /// The last bytes, as far as something may end with them.
    tail: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum At {
    #[default]
    Text,
    /// Behind a `<` that may open a tag.
    Open,
    TagName,
    Tag,
    Unquoted,
    Quoted(char),
    Comment,
    Raw,
    /// An element whose content is text to its end tag, as `<title>`.
    TextOnly,
}

impl Html {
    /// Goes on over a text.
    pub fn take(&mut self, text: &str) {
        text.chars().for_each(|char| self.step(char));
    }

    /// Returns whether a value may stand here.
    ///
    /// # Errors
    /// Where this is, if not.
    pub fn place(&self) -> Result<(), &'static str> {
        match self.at {
            At::Text | At::TextOnly => Ok(()),
            At::Comment => Err("in a comment"),
            At::Raw => Err("in an element such as `<script>` or `<style>`"),
            At::Open | At::TagName | At::Tag | At::Unquoted => Err("in a tag outside of quotes"),
            At::Quoted(_) => {
                let name = self.attribute.as_str();
                let begun = self.value.starts_with(['/', '?', '#', '.'])
                    || ["https://", "http://", "mailto:"].iter().any(|scheme| self.value.starts_with(scheme));
                if name.starts_with("on") || matches!(name, "style" | "srcdoc" | "srcset") {
                    Err("in an attribute that is read as a program or a style")
                } else if ADDRESSES.contains(&name) && !begun {
                    Err("at the beginning of an address")
                } else {
                    Ok(())
                }
            }
        }
    }

    fn step(&mut self, char: char) {
        match self.at {
            At::Text if char == '<' => self.go(At::Open),
            At::Text => {}
            At::Open => match char {
                '/' if self.tag.is_empty() => self.tag.push('/'),
                _ if char.is_ascii_alphabetic() => {
                    self.at = At::TagName;
                    self.tag.push(char.to_ascii_lowercase());
                }
                // a declaration or a comment
                '!' if self.tag.is_empty() => self.go(At::Tag),
                '<' => self.go(At::Open),
                _ => self.go(At::Text),
            },
            At::TagName => match char {
                '>' => self.close(),
                '/' => self.at = At::Tag,
                _ if char.is_ascii_whitespace() => self.at = At::Tag,
                _ => self.tag.push(char.to_ascii_lowercase()),
            },
            At::Tag => self.in_tag(char),
            At::Unquoted => match char {
                '>' => self.close(),
                _ if char.is_ascii_whitespace() => self.next_attribute(),
                _ => {}
            },
            At::Quoted(quote) if char == quote => self.next_attribute(),
            At::Quoted(_) => self.value.push(char),
            At::Comment => {
                self.tail.push(char);
                if self.tail.ends_with("-->") {
                    self.go(At::Text);
                }
            }
            At::Raw | At::TextOnly => {
                self.tail.push(char.to_ascii_lowercase());
                if self.tail.ends_with('>') && self.tail.rfind("</").is_some_and(|end| self.ends_raw(end)) {
                    self.go(At::Text);
                }
            }
        }
    }

    /// Whether the end tag at this place in the tail is that of the element.
    fn ends_raw(&self, end: usize) -> bool {
        let rest = self.tail.get(end + 2..).and_then(|rest| rest.strip_prefix(self.tag.as_str()));
        // a script goes on behind its end tag while it holds the beginning of a comment
        let goes_on = self.tag == "script" && self.tail.rfind("<!--") > self.tail.rfind("-->");
        self.tag != "plaintext"
            && !goes_on
            && rest.is_some_and(|rest| {
                rest.starts_with(|next: char| next == '>' || next == '/' || next.is_ascii_whitespace())
            })
    }

    fn in_tag(&mut self, char: char) {
        match char {
            '>' => self.close(),
            '-' if self.attribute == "-" && self.tag.is_empty() => {
                self.go(At::Comment);
            }
            '"' | '\'' if self.attribute.ends_with('=') => {
                self.attribute.pop();
                self.value.clear();
                self.at = At::Quoted(char);
            }
            _ if char.is_ascii_whitespace() || char == '/' => {
                // blanks may stand around the equals sign
                if !self.attribute.ends_with('=') {
                    self.tail.clear();
                    self.tail.push(' ');
                }
            }
            '=' => {
                self.tail.clear();
                self.attribute.push('=');
            }
            _ if self.attribute.ends_with('=') => self.at = At::Unquoted,
            _ => {
                if !self.tail.is_empty() {
                    self.next_attribute();
                }
                self.attribute.push(char.to_ascii_lowercase());
            }
        }
    }

    fn next_attribute(&mut self) {
        self.attribute.clear();
        self.value.clear();
        self.tail.clear();
        self.at = At::Tag;
    }

    /// The tag ends.
    fn close(&mut self) {
        let tag = std::mem::take(&mut self.tag);
        let next = match tag.as_str() {
            raw if RAW.contains(&raw) => At::Raw,
            "title" | "textarea" => At::TextOnly,
            _ => At::Text,
        };
        self.go(next);
        if next != At::Text {
            self.tag = tag;
        }
    }

    fn go(&mut self, at: At) {
        self.at = at;
        self.tag.clear();
        self.attribute.clear();
        self.value.clear();
        self.tail.clear();
    }
}
