//! Cuts a litmus text into words, numbers and signs, and keeps the comments.
//!
//! `(*` begins a comment outside of braces and is a dereference within them, so depth is counted.

/// A piece of a text, and the line in which it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) line: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word(String),
    Number(i64),
    Sign(&'static str),
}

/// A text in pieces.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
    /// The text of all comments.
    pub(crate) comments: String,
}

/// Signs of the format and of C. Those that begin with another one come before it.
const SIGNS: [&str; 28] = [
    "/\\", "\\/", "==", "!=", "<=", ">=", "&&", "||", "{", "}", "(", ")", "[", "]", ";", ",", "=",
    "*", ":", "~", "!", "<", ">", "+", "-", "&", "|", "^",
];

/// Cuts a text. `line` is the number of its first line.
pub(crate) fn cut(text: &str, mut line: usize) -> Result<Tokens, String> {
    let mut found = Tokens { tokens: Vec::new(), comments: String::new() };
    let mut rest = text;
    let mut depth = 0_usize;
    while let Some(first) = rest.chars().next() {
        if let Some(end) = comment_end(rest, depth == 0) {
            let length = rest.find(end).ok_or_else(|| format!("line {line}: no end: `{end}`"))?;
            found.comments.push_str(&rest[..length]);
            found.comments.push('\n');
            // The end of the line is not part of a comment, and is counted below.
            let taken = if end == "\n" { length } else { length + end.len() };
            line += rest[..taken].matches('\n').count();
            rest = &rest[taken..];
            continue;
        }
        let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let (kind, length) = if first.is_whitespace() {
            line += usize::from(first == '\n');
            rest = &rest[first.len_utf8()..];
            continue;
        } else if first.is_ascii_digit() {
            let number = rest[..length].parse();
            let bad = |_| format!("line {line}: no number: `{}`", &rest[..length]);
            (TokenKind::Number(number.map_err(bad)?), length)
        } else if length > 0 {
            (TokenKind::Word(rest[..length].into()), length)
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            depth += usize::from(sign == "{");
            depth = depth.saturating_sub(usize::from(sign == "}"));
            (TokenKind::Sign(sign), sign.len())
        } else {
            return Err(format!("line {line}: unknown letter: `{first}`"));
        };
        found.tokens.push(Token { kind, line });
        rest = &rest[length..];
    }
    Ok(found)
}

/// What ends the comment that begins here, if one does.
fn comment_end(rest: &str, is_outside: bool) -> Option<&'static str> {
    let ends = [("(*", "*)", is_outside), ("/*", "*/", true), ("//", "\n", true)];
    ends.into_iter().find(|(begin, _, may)| *may && rest.starts_with(begin)).map(|(_, end, _)| end)
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
