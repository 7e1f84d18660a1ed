//! Reads a litmus text of the Linux kernel's kind, in the subset that this checker runs.
//!
//! The subset: `int` registers, `READ_ONCE`, `WRITE_ONCE`, `smp_load_acquire`, `smp_store_release`,
//! `xchg` in its four orders, `smp_mb`, `smp_rmb`, `smp_wmb`, `if`, and `exists`. Everything else
//! is an error with its line. Nothing is skipped: a text that lost a statement would get a verdict
//! that is not its own.

use std::collections::BTreeSet;

use crate::program::{Condition, Expression, Fence, Litmus, Order, Source, Statement, Verdict};
use crate::tokens::{Token, TokenKind, cut};

/// Reads a text.
pub(crate) fn parse(text: &str) -> Result<Litmus, String> {
    let (head, body) = text.split_once('\n').unwrap_or((text, ""));
    if !head.starts_with("C ") {
        return Err(format!("line 1: expected `C NAME`, found `{head}`"));
    }
    let found = cut(body, 2)?;
    let mut parser = Parser::new(found.tokens);
    let result = result_of(&found.comments)?;
    parser.initial_values()?;
    let mut threads = Vec::new();
    while parser.sees_word(&format!("P{}", threads.len())) {
        threads.push(parser.thread()?);
    }
    parser.word("exists")?;
    let condition = parser.condition()?;
    parser.end()?;
    let Parser { locations, initial, .. } = parser;
    Ok(Litmus { result, locations, initial, threads, condition })
}

/// The answer in the line `Result:` of the comments.
fn result_of(comments: &str) -> Result<Option<Verdict>, String> {
    let Some((_, after)) = comments.split_once("Result:") else { return Ok(None) };
    let name = after.lines().next().unwrap_or("").trim();
    Verdict::of(name).map(Some).ok_or_else(|| format!("unknown result: `{name}`"))
}

/// An operator of C: its sign, how close it binds, what it computes.
type Operator = (&'static str, usize, fn(i64, i64) -> i64);

const OPERATORS: [Operator; 14] = [
    ("||", 0, |a, b| i64::from(a != 0 || b != 0)),
    ("&&", 1, |a, b| i64::from(a != 0 && b != 0)),
    ("|", 2, |a, b| a | b),
    ("^", 3, |a, b| a ^ b),
    ("&", 4, |a, b| a & b),
    ("==", 5, |a, b| i64::from(a == b)),
    ("!=", 5, |a, b| i64::from(a != b)),
    ("<", 6, |a, b| i64::from(a < b)),
    (">", 6, |a, b| i64::from(a > b)),
    ("<=", 6, |a, b| i64::from(a <= b)),
    (">=", 6, |a, b| i64::from(a >= b)),
    ("+", 7, i64::wrapping_add),
    ("-", 7, i64::wrapping_sub),
    ("*", 8, i64::wrapping_mul),
];

/// The functions that fence.
const FENCES: [(&str, Fence); 3] =
    [("smp_mb", Fence::Full), ("smp_rmb", Fence::Reads), ("smp_wmb", Fence::Writes)];

/// The functions that read and write in one step.
const EXCHANGES: [(&str, Order); 4] = [
    ("xchg", Order::Full),
    ("xchg_relaxed", Order::Once),
    ("xchg_acquire", Order::Acquire),
    ("xchg_release", Order::Release),
];

/// The tokens that are left, and the names that have been declared.
struct Parser {
    tokens: std::vec::IntoIter<Token>,
    /// The line of the last token that was taken.
    line: usize,
    locations: Vec<String>,
    initial: Vec<i64>,
    /// The registers of each thread.
    registers: Vec<BTreeSet<String>>,
    /// The locations that are parameters of the thread that is being read.
    parameters: BTreeSet<usize>,
}

impl Parser {
    fn new(tokens: Vec<Token>) -> Parser {
        Parser {
            tokens: tokens.into_iter(),
            line: 2,
            locations: Vec::new(),
            initial: Vec::new(),
            registers: Vec::new(),
            parameters: BTreeSet::new(),
        }
    }

    /// `{ x=1; int y=2; }`
    fn initial_values(&mut self) -> Result<(), String> {
        self.sign("{")?;
        while !self.takes_sign("}") {
            if self.sees_word("int") {
                self.word("int")?;
            }
            let name = self.name()?;
            self.sign("=")?;
            let value = self.number()?;
            self.sign(";")?;
            if self.locations.contains(&name) {
                return self.refuse(&format!("`{name}` has two initial values"));
            }
            let location = self.intern(name);
            self.initial[location] = value;
        }
        Ok(())
    }

    /// The index of a location, which is 0 at first if it is new.
    fn intern(&mut self, name: String) -> usize {
        self.locations.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.locations.push(name);
            self.initial.push(0);
            self.locations.len() - 1
        })
    }

    /// `P0(int *x, int *y) { ... }`
    fn thread(&mut self) -> Result<Vec<Statement>, String> {
        self.name()?;
        self.registers.push(BTreeSet::new());
        self.parameters.clear();
        self.sign("(")?;
        while !self.takes_sign(")") {
            self.word("int")?;
            self.sign("*")?;
            let name = self.name()?;
            let location = self.intern(name);
            self.parameters.insert(location);
            if !self.sees_sign(")") {
                self.sign(",")?;
            }
        }
        self.sign("{")?;
        self.statements()
    }

    /// Statements up to the brace that closes them.
    fn statements(&mut self) -> Result<Vec<Statement>, String> {
        let mut statements = Vec::new();
        while !self.takes_sign("}") {
            statements.extend(self.statement()?);
        }
        Ok(statements)
    }

    /// One statement; none for a declaration.
    fn statement(&mut self) -> Result<Option<Statement>, String> {
        if self.sees_sign("*") {
            self.sign("*")?;
            return self.refuse("a plain write: use `WRITE_ONCE`");
        }
        let name = self.name()?;
        if name == "if" {
            return self.branch().map(Some);
        }
        let statement = if name == "int" {
            let register = self.name()?;
            self.own().insert(register.clone());
            let is_assigned = self.takes_sign("=");
            if is_assigned { Some(self.assignment(register)?) } else { None }
        } else if self.takes_sign("=") {
            Some(self.assignment(name)?)
        } else {
            Some(self.call(&name)?)
        };
        self.sign(";")?;
        Ok(statement)
    }

    /// What follows `if`.
    fn branch(&mut self) -> Result<Statement, String> {
        self.sign("(")?;
        let condition = self.expression(0)?;
        self.sign(")")?;
        let then = self.arm()?;
        let mut otherwise = Vec::new();
        if self.sees_word("else") {
            self.word("else")?;
            otherwise = self.arm()?;
        }
        Ok(Statement::If { condition, arms: [then, otherwise] })
    }

    /// An arm of an `if`: statements in braces, or one.
    fn arm(&mut self) -> Result<Vec<Statement>, String> {
        if self.takes_sign("{") {
            return self.statements();
        }
        Ok(self.statement()?.into_iter().collect())
    }

    /// What follows `register =`.
    fn assignment(&mut self, register: String) -> Result<Statement, String> {
        if !self.own().contains(&register) {
            return self.refuse(&format!("`{register}` is not declared in this thread"));
        }
        let called = self.takes_call();
        let source = match called {
            Some(function) => self.source(&function)?,
            None => Source::Computed(self.expression(0)?),
        };
        Ok(Statement::Assign { register: Some(register), source })
    }

    /// A call that stands alone, after its name.
    fn call(&mut self, function: &str) -> Result<Statement, String> {
        self.sign("(")?;
        if let Some((_, fence)) = FENCES.into_iter().find(|(name, _)| *name == function) {
            self.sign(")")?;
            return Ok(Statement::Fence(fence));
        }
        let order = match function {
            "WRITE_ONCE" => Order::Once,
            "smp_store_release" => Order::Release,
            _ => return Ok(Statement::Assign { register: None, source: self.source(function)? }),
        };
        let location = self.location(order == Order::Once)?;
        let value = self.last_argument()?;
        Ok(Statement::Store { order, location, value })
    }

    /// A call that gives a value, after its parenthesis.
    fn source(&mut self, function: &str) -> Result<Source, String> {
        if let Some((_, order)) = EXCHANGES.into_iter().find(|(name, _)| *name == function) {
            let location = self.location(false)?;
            let value = self.last_argument()?;
            return Ok(Source::Exchange { order, location, value });
        }
        let order = match function {
            "READ_ONCE" => Order::Once,
            "smp_load_acquire" => Order::Acquire,
            _ => return self.refuse(&format!("`{function}` is not in the subset")),
        };
        let location = self.location(order == Order::Once)?;
        self.sign(")")?;
        Ok(Source::Load { order, location })
    }

    /// `*x` or, as an argument that is a pointer, `x`.
    fn location(&mut self, is_dereferenced: bool) -> Result<usize, String> {
        if is_dereferenced {
            self.sign("*")?;
        }
        let name = self.name()?;
        let location = self.locations.iter().position(|known| *known == name);
        match location.filter(|location| self.parameters.contains(location)) {
            Some(location) => Ok(location),
            None => self.refuse(&format!("`{name}` is not a parameter of this thread")),
        }
    }

    /// `, value)`
    fn last_argument(&mut self) -> Result<Expression, String> {
        self.sign(",")?;
        let value = self.expression(0)?;
        self.sign(")")?;
        Ok(value)
    }

    /// A computation whose operators bind at least as close as `level`.
    fn expression(&mut self, level: usize) -> Result<Expression, String> {
        let mut left = self.operand()?;
        while let Some((sign, own, compute)) =
            OPERATORS.into_iter().find(|(sign, own, _)| *own >= level && self.sees_sign(sign))
        {
            self.sign(sign)?;
            let right = self.expression(own + 1)?;
            left = Expression::Binary(compute, Box::new([left, right]));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, String> {
        if self.takes_sign("(") {
            let inner = self.expression(0)?;
            self.sign(")")?;
            return Ok(inner);
        }
        if self.takes_sign("!") {
            let inner = Box::new(self.operand()?);
            return Ok(Expression::Unary(|value| i64::from(value == 0), inner));
        }
        if self.takes_sign("-") {
            return Ok(Expression::Unary(i64::wrapping_neg, Box::new(self.operand()?)));
        }
        if matches!(self.peek(0), Some(TokenKind::Number(_))) {
            return Ok(Expression::Number(self.number()?));
        }
        if self.takes_sign("*") {
            return self.refuse("a plain read: use `READ_ONCE`, and in a statement of its own");
        }
        let register = self.name()?;
        if self.sees_sign("(") {
            return self.refuse(&format!("`{register}` within an expression: assign it first"));
        }
        if !self.own().contains(&register) {
            return self.refuse(&format!("`{register}` is not a register of this thread"));
        }
        Ok(Expression::Register(register))
    }
}

/// The clause `exists`.
impl Parser {
    /// `a \/ b`, where `/\` binds closer.
    fn condition(&mut self) -> Result<Condition, String> {
        let mut left = self.conjunction()?;
        while self.takes_sign("\\/") {
            left = Condition::Or(Box::new([left, self.conjunction()?]));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Condition, String> {
        let mut left = self.atom()?;
        while self.takes_sign("/\\") {
            left = Condition::And(Box::new([left, self.atom()?]));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Condition, String> {
        if self.takes_sign("(") {
            let inner = self.condition()?;
            self.sign(")")?;
            return Ok(inner);
        }
        if self.takes_sign("~") {
            return Ok(Condition::Not(Box::new(self.atom()?)));
        }
        if matches!(self.peek(0), Some(TokenKind::Number(_))) {
            let thread = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            self.sign(":")?;
            let register = self.name()?;
            if !self.registers.get(thread).is_some_and(|own| own.contains(&register)) {
                return self.refuse(&format!("P{thread} has no register `{register}`"));
            }
            self.sign("=")?;
            return Ok(Condition::Register { thread, register, value: self.number()? });
        }
        let name = self.name()?;
        let Some(location) = self.locations.iter().position(|known| *known == name) else {
            return self.refuse(&format!("`{name}` is not a location"));
        };
        self.sign("=")?;
        Ok(Condition::Location { location, value: self.number()? })
    }
}

/// Single tokens.
impl Parser {
    fn peek(&self, ahead: usize) -> Option<&TokenKind> {
        self.tokens.as_slice().get(ahead).map(|token| &token.kind)
    }

    fn take(&mut self) -> Option<TokenKind> {
        let token = self.tokens.next()?;
        self.line = token.line;
        Some(token.kind)
    }

    fn refuse<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("line {}: {what}", self.line))
    }

    fn expected<T>(&self, what: &str, found: Option<TokenKind>) -> Result<T, String> {
        let found = match found {
            Some(TokenKind::Word(word)) => word,
            Some(TokenKind::Number(number)) => number.to_string(),
            Some(TokenKind::Sign(sign)) => sign.into(),
            None => "the end".into(),
        };
        self.refuse(&format!("expected {what}, found `{found}`"))
    }

    fn sees_sign(&self, sign: &str) -> bool {
        matches!(self.peek(0), Some(TokenKind::Sign(seen)) if *seen == sign)
    }

    fn sees_word(&self, word: &str) -> bool {
        matches!(self.peek(0), Some(TokenKind::Word(seen)) if seen == word)
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        self.sees_sign(sign) && self.take().is_some()
    }

    /// Takes `name(`, if it comes next.
    fn takes_call(&mut self) -> Option<String> {
        let (TokenKind::Word(name), TokenKind::Sign("(")) = (self.peek(0)?, self.peek(1)?) else {
            return None;
        };
        let name = name.clone();
        self.take();
        self.take();
        Some(name)
    }

    fn sign(&mut self, sign: &str) -> Result<(), String> {
        match self.take() {
            Some(TokenKind::Sign(found)) if found == sign => Ok(()),
            found => self.expected(&format!("`{sign}`"), found),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        match self.take() {
            Some(TokenKind::Word(found)) if found == word => Ok(()),
            found => self.expected(&format!("`{word}`"), found),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.take() {
            Some(TokenKind::Word(name)) => Ok(name),
            found => self.expected("a name", found),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let is_negative = self.takes_sign("-");
        match self.take() {
            Some(TokenKind::Number(number)) => Ok(if is_negative { -number } else { number }),
            found => self.expected("a number", found),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        match self.take() {
            None => Ok(()),
            found => self.expected("the end", found),
        }
    }

    /// The registers of the thread that is being read.
    fn own(&mut self) -> &mut BTreeSet<String> {
        self.registers.last_mut().expect("statements are in threads")
    }
}
