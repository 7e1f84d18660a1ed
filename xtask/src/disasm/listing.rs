//! Parses the output of `objdump -d -C --no-show-raw-insn -M intel`, one function at a time.
//!
//! Addresses are used only to follow jumps. The page shows [`Instruction::text`], in which every
//! address is replaced by a label, a symbol or a word. So an unrelated change of the program does
//! not change the page.

use std::collections::BTreeMap;

/// One instruction of a function.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// Its address; used only to compare with [`Instruction::target`].
    pub address: u64,
    /// Its name with any prefix, such as `lock cmpxchg`.
    pub mnemonic: String,
    /// Its operands, as the page shows them.
    pub operands: String,
    /// Target of a direct jump or call.
    pub target: Option<u64>,
    /// Name of the symbol that it jumps to, calls or addresses.
    pub symbol: Option<String>,
}

/// A function: its symbol and its instructions, without the padding after it.
#[derive(Debug, Clone)]
pub struct Function {
    /// Symbol of the function.
    pub name: String,
    /// Instructions in the order of their addresses.
    pub instructions: Vec<Instruction>,
}

/// Words that `objdump` prints before the name of an instruction.
const PREFIXES: [&str; 8] = ["lock", "rep", "repz", "repnz", "notrack", "bnd", "data16", "cs"];

impl Instruction {
    /// The instruction, as the page shows it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{:<7} {}", self.mnemonic, self.operands).trim_end().to_owned()
    }

    /// True for a return.
    #[must_use]
    pub fn is_return(&self) -> bool {
        self.mnemonic.ends_with("ret")
    }

    /// True for a call.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.mnemonic.ends_with("call")
    }

    /// True for an unconditional jump.
    #[must_use]
    pub fn is_jump(&self) -> bool {
        self.mnemonic.ends_with("jmp")
    }

    /// True for a conditional jump.
    #[must_use]
    pub fn is_conditional_jump(&self) -> bool {
        self.mnemonic.starts_with('j') && !self.is_jump()
    }

    /// True for an instruction that ends the program.
    #[must_use]
    pub fn is_trap(&self) -> bool {
        matches!(self.mnemonic.as_str(), "ud2" | "hlt" | "int3")
    }

    /// True when it reads or writes memory through an operand. The stack access of a call does not
    /// count.
    #[must_use]
    pub fn touches_memory(&self) -> bool {
        let is_address_only = self.mnemonic.starts_with("lea") || self.mnemonic.starts_with("nop");
        let is_direct_branch = self.target.is_some();
        !is_address_only
            && !is_direct_branch
            && ["[", "fs:", "gs:"].iter().any(|sign| self.operands.contains(sign))
    }

    /// True when it is atomic with respect to other CPUs; an exchange with memory is, without the
    /// prefix.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.mnemonic.starts_with("lock") || self.mnemonic == "xchg" && self.touches_memory()
    }

    /// Reads a line like `  7a3a:<tab>jne    7a50 <name+0x20>`.
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.trim_start().split_once(":\t")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let (code, comment) = match rest.split_once('#') {
            Some((code, comment)) => (code.trim(), Some(comment.trim())),
            None => (rest.trim(), None),
        };
        let (mnemonic, operands) = split_mnemonic(code);
        let mut instruction =
            Self { address, mnemonic, operands: String::new(), target: None, symbol: None };
        let branches =
            instruction.mnemonic.starts_with('j') || instruction.is_jump() || instruction.is_call();
        // A branch names its target in its operand, other instructions in the comment.
        let (reference, symbol) = split_symbol(comment.unwrap_or(&operands));
        instruction.symbol = symbol;
        if branches && comment.is_none() {
            instruction.target = u64::from_str_radix(reference, 16).ok();
        }
        instruction.operands = match instruction.target {
            Some(_) => instruction.symbol.clone().unwrap_or_else(|| "elsewhere".into()),
            None => steady_operands(&operands, instruction.symbol.as_deref()),
        };
        Some(instruction)
    }
}

impl Function {
    /// Cuts the function with symbol `name` out of a listing.
    #[must_use]
    pub fn find(listing: &str, name: &str) -> Option<Self> {
        let head = format!("<{name}>:");
        let body = listing.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
        let body = body.take_while(|line| line.contains('\t'));
        let mut instructions: Vec<_> = body.filter_map(Instruction::parse).collect();
        // Padding follows the last instruction, up to the next function.
        while instructions.last().is_some_and(is_padding) {
            instructions.pop();
        }
        if instructions.is_empty() {
            return None;
        }
        let mut function = Self { name: name.to_owned(), instructions };
        function.label_targets();
        Some(function)
    }

    /// Index of the instruction at `address`, if it is in this function.
    #[must_use]
    pub fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()
    }

    /// Labels of jump targets inside the function, by address: `.1`, `.2` downwards.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<u64, String> {
        let targets = self.instructions.iter().filter_map(|instruction| instruction.target);
        let mut labels: BTreeMap<u64, String> = targets
            .filter(|target| self.index_of(*target).is_some())
            .map(|target| (target, String::new()))
            .collect();
        for (label, number) in labels.values_mut().zip(1..) {
            *label = format!(".{number}");
        }
        labels
    }

    fn label_targets(&mut self) {
        let labels = self.labels();
        for instruction in &mut self.instructions {
            if let Some(label) = instruction.target.and_then(|target| labels.get(&target)) {
                instruction.operands.clone_from(label);
                instruction.symbol = None;
            }
        }
    }
}

fn is_padding(instruction: &Instruction) -> bool {
    let name = instruction.mnemonic.as_str();
    name == "int3"
        || name.ends_with("nop")
        || name == "nopw"
        || instruction.text() == "xchg    ax,ax"
}

/// Splits an instruction into its name, with prefixes, and its operands.
fn split_mnemonic(code: &str) -> (String, String) {
    let mut mnemonic = String::new();
    let mut rest = code;
    loop {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        mnemonic.push_str(word);
        rest = after.trim_start();
        if rest.is_empty() || !PREFIXES.contains(&word) {
            return (mnemonic, rest.to_owned());
        }
        mnemonic.push(' ');
    }
}

/// Splits `7a50 <name+0x20>` into the address and a name that is the same in every build: none if
/// the symbol is only the nearest one, and without the compiler's hash.
fn split_symbol(reference: &str) -> (&str, Option<String>) {
    let Some((address, symbol)) = reference.split_once('<') else { return (reference, None) };
    let symbol = symbol.strip_suffix('>').unwrap_or(symbol);
    let is_nearest_only = symbol.rsplit_once("+0x").is_some_and(|(_, offset)| {
        !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let without_hash = match symbol.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => symbol,
    };
    (address.trim(), (!is_nearest_only).then(|| without_hash.to_owned()))
}

/// Removes addresses from operands: `[rip+0x3b4c9]` becomes a symbol or a word. So does an offset
/// from the thread pointer, which changes with the program's other thread-locals.
fn steady_operands(operands: &str, symbol: Option<&str>) -> String {
    let mut steady = operands.to_owned();
    if let Some((before, rest)) = operands.split_once("[rip+")
        && let Some((_, after)) = rest.split_once(']')
    {
        steady = format!("{before}[{}]{after}", symbol.unwrap_or("static"));
    }
    if let Some((before, rest)) = steady.split_once("fs:0xffff") {
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        steady = format!("{before}fs:[thread-local]{}", &rest[end..]);
    }
    steady
}
