//! A parsed Rust file for rules: a flat list of tokens, its comments, and the lines of test code.
//!
//! The rules read tokens, so that comments and strings never count as code, and the inside of a
//! macro does. Items come from `syn` where a rule needs the end of an item.

use core::ops::RangeInclusive;
use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use syn::visit::Visit;

use super::cfg;
use crate::finding::{Finding, Kind};
use crate::repo::TextFile;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    /// Punctuation; `::` is one token, everything else one character.
    Mark,
    Literal,
    Open,
    Close,
}

/// One token with its line.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is_word(&self) -> bool {
        self.kind == TokenKind::Word
    }
}

/// One line of a comment, documentation included.
#[derive(Debug)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// One name that a `use` item brings in.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    /// The parts of the path; the last one is `*` for a glob.
    pub(crate) path: Vec<String>,
    /// The name in this file.
    pub(crate) name: String,
    /// A re-export, however far it reaches.
    pub(crate) public: bool,
    pub(crate) line: usize,
}

/// A parsed file.
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) tokens: Vec<Token>,
    /// Sorted by line.
    pub(crate) comments: Vec<Comment>,
    pub(crate) imports: Vec<Import>,
    pub(crate) syntax: syn::File,
    test_lines: Vec<RangeInclusive<usize>>,
    test_module_names: BTreeSet<String>,
}

impl RustFile {
    pub(crate) fn parse(file: &TextFile) -> Result<Self, Finding> {
        let refuse = |line: usize, error: String| {
            Finding::new(&file.path, line.max(1), Kind::DoesNotParse { error })
        };
        let stream: TokenStream = file.text.parse().map_err(|error: proc_macro2::LexError| {
            refuse(error.span().start().line, error.to_string())
        })?;
        let mut reader = Reader::new(&file.text);
        reader.read(stream.clone());
        reader.gap(file.text.len());
        let syntax: syn::File = syn::parse2(stream)
            .map_err(|error| refuse(error.span().start().line, error.to_string()))?;
        let mut items = Items::default();
        items.visit_file(&syntax);
        reader.comments.sort_by_key(|comment| comment.line);
        Ok(Self {
            path: file.path.clone(),
            tokens: reader.tokens,
            comments: reader.comments,
            imports: items.imports,
            syntax,
            test_lines: items.test_lines,
            test_module_names: items.test_module_names,
        })
    }

    /// True when the line is inside an item that only test or model builds compile.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Names of the modules in other files that only test or model builds compile.
    pub(crate) fn test_module_names(&self) -> impl Iterator<Item = &str> {
        self.test_module_names.iter().map(String::as_str)
    }

    /// Text of the token at `index`, or nothing outside the file.
    pub(crate) fn text_at(&self, index: Option<usize>) -> &str {
        index.and_then(|index| self.tokens.get(index)).map_or("", |token| token.text.as_str())
    }

    /// The lines of every function, from `fn` to the closing brace.
    pub(crate) fn function_lines(&self) -> impl Iterator<Item = RangeInclusive<usize>> {
        let words = self.tokens.iter().enumerate().filter(|(_, token)| token.text == "fn");
        words.filter_map(|(index, token)| Some(token.line..=self.end_of_body(index)?))
    }

    /// The last line of the body of the function whose `fn` is at `index`; nothing for a
    /// declaration without a body and for the type of a function.
    pub(crate) fn end_of_body(&self, index: usize) -> Option<usize> {
        if self.tokens.get(index + 1)?.kind != TokenKind::Word {
            return None;
        }
        let mut depth = 0_usize;
        let mut in_body = false;
        for token in &self.tokens[index..] {
            match token.kind {
                TokenKind::Open => {
                    in_body |= depth == 0 && token.text == "{";
                    depth += 1;
                }
                TokenKind::Close => {
                    // The end of the item that contains a declaration.
                    depth = depth.checked_sub(1)?;
                    if depth == 0 && in_body {
                        return Some(token.line);
                    }
                }
                TokenKind::Mark if depth == 0 && token.text == ";" => return None,
                _ => {}
            }
        }
        None
    }

    /// The index of the token that ends the signature of the function whose `fn` is at `index`: the
    /// brace before its body, or a semicolon.
    pub(crate) fn end_of_signature(&self, index: usize) -> usize {
        let mut at = index;
        while !matches!(self.text_at(Some(at)), "{" | ";" | "") {
            let opens = self.tokens[at].kind == TokenKind::Open;
            at = if opens { self.end_of_group(at) + 1 } else { at + 1 };
        }
        at
    }

    /// The index of the token that closes the group which the one at `open` opens.
    pub(crate) fn end_of_group(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.tokens.len()
    }

    /// True when the token at `index` is a part of a `use` item.
    pub(crate) fn is_in_use_item(&self, index: usize) -> bool {
        self.tokens[..index]
            .iter()
            .rev()
            .take_while(|token| {
                matches!(token.text.as_str(), "{" | "}" | "::" | "," | "*")
                    || token.kind == TokenKind::Word
            })
            .any(|token| token.text == "use" && token.kind == TokenKind::Word)
    }
}

/// Flattens the tokens of a file and finds the comments in the gaps between them.
struct Reader<'text> {
    text: &'text str,
    line_starts: Vec<usize>,
    /// End of the text that has been read.
    position: usize,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
}

impl<'text> Reader<'text> {
    fn new(text: &'text str) -> Self {
        let line_starts =
            core::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, line_starts, position: 0, tokens: Vec::new(), comments: Vec::new() }
    }

    fn line_of(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= byte)
    }

    fn read(&mut self, stream: TokenStream) {
        let mut colon_pending = false;
        for tree in stream {
            let span = tree.span();
            let bytes = span.byte_range();
            let source = self.text.get(bytes.clone()).unwrap_or("");
            if source.starts_with("//") || source.starts_with("/*") {
                // A documentation comment: the parser has turned it into an attribute whose tokens
                // all cover the whole comment.
                self.gap(bytes.end);
                continue;
            }
            self.gap(bytes.start);
            let line = self.line_of(bytes.start);
            let (kind, text) = match tree {
                TokenTree::Group(group) => {
                    self.read_group(&group);
                    colon_pending = false;
                    continue;
                }
                TokenTree::Ident(word) => (TokenKind::Word, word.to_string()),
                TokenTree::Literal(literal) => (TokenKind::Literal, literal.to_string()),
                TokenTree::Punct(mark) => {
                    if colon_pending && mark.as_char() == ':' {
                        // Completes the `::` that its first half has added.
                        colon_pending = false;
                        self.position = self.position.max(bytes.end);
                        continue;
                    }
                    colon_pending = mark.as_char() == ':' && mark.spacing() == Spacing::Joint;
                    let text = if colon_pending { "::".into() } else { mark.as_char().into() };
                    (TokenKind::Mark, text)
                }
            };
            self.tokens.push(Token { kind, text, line });
            self.position = self.position.max(bytes.end);
        }
    }

    fn read_group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let opening = group.span_open().byte_range();
        let closing = group.span_close().byte_range();
        let line = self.line_of(opening.start);
        self.tokens.push(Token { kind: TokenKind::Open, text: open.into(), line });
        self.position = self.position.max(opening.end);
        self.read(group.stream());
        self.gap(closing.start);
        let line = self.line_of(closing.start);
        self.tokens.push(Token { kind: TokenKind::Close, text: close.into(), line });
        self.position = self.position.max(closing.end);
    }

    /// Reads the comments between the last token and byte `end`; only white space is between them.
    fn gap(&mut self, end: usize) {
        let start = self.position;
        if end <= start {
            return;
        }
        self.position = end;
        let Some(gap) = self.text.get(start..end) else { return };
        let first_line = self.line_of(start);
        for (offset, line) in gap.lines().enumerate() {
            if !line.trim().is_empty() {
                let text = line.trim().to_owned();
                self.comments.push(Comment { line: first_line + offset, text });
            }
        }
    }
}

/// Collects what needs whole items: imports, and the lines of test code.
#[derive(Default)]
struct Items {
    imports: Vec<Import>,
    test_lines: Vec<RangeInclusive<usize>>,
    test_module_names: BTreeSet<String>,
}

impl Items {
    fn note_test(&mut self, attributes: &[syn::Attribute], spanned: &impl syn::spanned::Spanned) {
        if cfg::is_only_for_tests(attributes) {
            let span = spanned.span();
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }

    fn note_imports(&mut self, tree: &syn::UseTree, before: &[String], public: bool) {
        let path_to = |last: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(last.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(part) => {
                self.note_imports(&part.tree, &path_to(&part.ident), public);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_imports(tree, before, public);
                }
            }
            syn::UseTree::Name(name) => self.imports.push(Import {
                path: path_to(&name.ident),
                name: name.ident.to_string(),
                public,
                line: name.ident.span().start().line,
            }),
            syn::UseTree::Rename(rename) => self.imports.push(Import {
                path: path_to(&rename.ident),
                name: rename.rename.to_string(),
                public,
                line: rename.ident.span().start().line,
            }),
            syn::UseTree::Glob(glob) => {
                let mut path = before.to_vec();
                path.push("*".into());
                let line = glob.star_token.span.start().line;
                self.imports.push(Import { path, name: "*".into(), public, line });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.note_test(cfg::attributes_of(item), item);
        if let syn::Item::Mod(module) = item
            && module.content.is_none()
            && cfg::is_only_for_tests(&module.attrs)
        {
            self.test_module_names.insert(module.ident.to_string());
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note_test(&function.attrs, function);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.note_test(&local.attrs, local);
        syn::visit::visit_local(self, local);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        self.note_imports(&item.tree, &[], public);
    }
}
