//! Rust source as far as the rules need it: which paths a file names, and in which lines.
//!
//! A parser would bring a dependency to learn what a page of code can say: words and punctuation without comments and
//! literals, and paths with their `use` groups spread out.

/// A word, or `::`, or one character of punctuation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What stands there.
    pub(super) text: String,
    /// Counted from 1.
    pub(super) line: usize,
}

/// A path such as `crate::store::Error`, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Its segments; the last of a group's `self` is left out.
    pub(super) segments: Vec<String>,
    /// How many modules within the file enclose it, `mod tests` for one.
    pub(super) inline_modules: usize,
    /// Where its last segment stands.
    pub(super) line: usize,
}

/// Splits source into tokens; comments, strings, characters and lifetimes are left out.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => i = skip_until(&chars, i, |c| c == '\n'),
            '/' if at(i + 1) == '*' => i = skip_block_comment(&chars, i),
            '"' => i = skip_string(&chars, i),
            'r' | 'b' | 'c' if literal_prefix(&chars, i).is_some() => {
                i = literal_prefix(&chars, i).expect("just seen");
            }
            '\'' => i = skip_quote(&chars, i),
            c if c.is_alphabetic() || c == '_' => {
                i = skip_until(&chars, i, |c| !c.is_alphanumeric() && c != '_');
                tokens.push(Token { text: chars[start..i].iter().collect(), line });
            }
            c if c.is_numeric() => i = skip_until(&chars, i, |c| !c.is_alphanumeric() && c != '_'),
            ':' if at(i + 1) == ':' => {
                i += 2;
                tokens.push(Token { text: "::".into(), line });
            }
            c => {
                i += 1;
                if !c.is_whitespace() {
                    tokens.push(Token { text: c.into(), line });
                }
            }
        }
        line += chars[start..i].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// The first position from `i` on where `stop` holds, or the end.
fn skip_until(chars: &[char], i: usize, stop: impl Fn(char) -> bool) -> usize {
    chars[i..].iter().position(|c| stop(*c)).map_or(chars.len(), |n| i + n)
}

/// Behind the block comment that begins at `i`; they nest.
fn skip_block_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        match chars.get(i..i + 2) {
            Some(['/', '*']) => (depth, i) = (depth + 1, i + 2),
            Some(['*', '/']) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

/// Behind the string whose opening quote is at `i`.
fn skip_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// Behind the literal if `r"…"`, `r#"…"#`, `b"…"`, `b'…'`, `br"…"` or `c"…"` begins at `i`.
fn literal_prefix(chars: &[char], i: usize) -> Option<usize> {
    let quote = skip_until(chars, i, |c| !matches!(c, 'r' | 'b' | 'c'));
    let raw = chars[i..quote].contains(&'r');
    let content = skip_until(chars, quote, |c| c != '#');
    let hashes = content - quote;
    match chars.get(content) {
        Some('"') if raw && quote - i <= 2 => {
            let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let from = content + 1;
            let length = chars[from..].windows(end.len()).position(|w| w == end);
            Some(length.map_or(chars.len(), |n| from + n + end.len()))
        }
        Some('"') if hashes == 0 && quote - i == 1 => Some(skip_string(chars, content)),
        Some('\'') if hashes == 0 && chars[i..quote] == ['b'] => Some(skip_quote(chars, content)),
        _ => None,
    }
}

/// Behind the character or the lifetime whose quote is at `i`.
fn skip_quote(chars: &[char], i: usize) -> usize {
    match (chars.get(i + 1), chars.get(i + 2)) {
        (Some('\\'), _) => skip_until(chars, i + 3, |c| c == '\'') + 1,
        (Some(_), Some('\'')) => i + 3,
        _ => skip_until(chars, i + 1, |c| !c.is_alphanumeric() && c != '_'),
    }
}

/// All paths of two or more segments, and all that a `use` or an `extern crate` names.
pub(super) fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut found = Vec::new();
    // For each open brace, whether it is a module's.
    let mut braces = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let inline_modules = braces.iter().filter(|is_module| **is_module).count();
        match tokens[i].text.as_str() {
            "use" => i = use_tree(tokens, i + 1, &[], inline_modules, &mut found),
            "{" => {
                braces.push(i >= 2 && tokens[i - 2].text == "mod");
                i += 1;
            }
            "}" => {
                braces.pop();
                i += 1;
            }
            text if is_word(text) => {
                let (segments, next) = segments(tokens, i);
                let is_extern = i >= 2 && tokens[i - 2].text == "extern" && tokens[i - 1].text == "crate";
                if segments.len() > 1 || is_extern {
                    found.push(Path { segments, inline_modules, line: tokens[next - 1].line });
                }
                i = next;
            }
            _ => i += 1,
        }
    }
    found
}

/// Reads one tree of a `use`, with `before` in front of it; returns where it ends.
fn use_tree(tokens: &[Token], mut i: usize, before: &[String], inline_modules: usize, found: &mut Vec<Path>) -> usize {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    if text(i) == "::" {
        i += 1;
    }
    let (mut path, mut next) = (before.to_vec(), i);
    if is_word(text(i)) {
        let (own, behind) = segments(tokens, i);
        path.extend(own);
        next = behind;
    }
    if text(next) == "::" {
        next += 1;
    }
    match text(next) {
        "{" => {
            next += 1;
            while next < tokens.len() && text(next) != "}" {
                next = use_tree(tokens, next, &path, inline_modules, found);
                if text(next) == "," {
                    next += 1;
                }
            }
            return next + 1;
        }
        "*" => next += 1,
        _ => {}
    }
    if !before.is_empty() && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if !path.is_empty() {
        let line = tokens[next.min(tokens.len()) - 1].line;
        found.push(Path { segments: path, inline_modules, line });
    }
    if text(next) == "as" {
        next += 2;
    }
    // Something that is no `use` tree must not stop the reader.
    next.max(i + 1)
}

/// The words from `i` on that `::` binds together, and where they end.
fn segments(tokens: &[Token], mut i: usize) -> (Vec<String>, usize) {
    let mut segments = vec![tokens[i].text.clone()];
    while let Some([colons, word]) = tokens.get(i + 1..i + 3) {
        if colons.text != "::" || !is_word(&word.text) {
            break;
        }
        segments.push(word.text.clone());
        i += 2;
    }
    (segments, i + 1)
}

/// Whether a token is an identifier or a keyword.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the paths of some source, each as `line:path` with a `+` for each module around it.
    fn check(source: &str, expected: &[&str]) {
        let paths: Vec<String> = paths(&tokens(source))
            .iter()
            .map(|path| format!("{}{}:{}", "+".repeat(path.inline_modules), path.line, path.segments.join("::")))
            .collect();
        assert_eq!(paths, expected, "in {source}");
    }

    #[test]
    fn paths_in_use_and_in_code_are_found() {
        check("use a::b;\nfn f() { crate::c::g::<d::E>(x) }", &["1:a::b", "2:crate::c::g", "2:d::E"]);
        check("pub(crate) use ::a::b as c;", &["1:a::b"]);
        check("use a;\nextern crate b;\nlet c = 1;", &["1:a", "2:b"]);
        check("impl a::B for C {}\n#[derive(d::E)]", &["1:a::B", "2:d::E"]);
    }

    #[test]
    fn groups_are_spread_out() {
        check(
            "use crate::{a::{B, C},\n  d::*, e::{self, F as G}, h};\nx::y()",
            &["1:crate::a::B", "1:crate::a::C", "2:crate::d", "2:crate::e", "2:crate::e::F", "2:crate::h", "3:x::y"],
        );
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        check("// a::b\n/* c::d /* e::f */ g::h */ i::j", &["2:i::j"]);
        check(r###"("a::b", r#"c::d " e::f"#, b"g::h", 'i', '\'', b'"', "\" j::k", l::m)"###, &["1:l::m"]);
        check("fn f<'a>(x: &'a str) -> b::C<'a> { '\\u{1f}' }", &["1:b::C"]);
    }

    #[test]
    fn modules_within_a_file_are_counted() {
        check("mod tests {\n fn f() { use super::a; }\n}\nuse super::b;", &["+2:super::a", "4:super::b"]);
    }
}
