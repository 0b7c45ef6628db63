//! What the regular expressions of Linkerd are. Two commands:
//!
//! - `tables` writes the tables of `lib/policy/rust-tables.ts`.
//! - `judge` reads lines, each a pattern and texts with tabs between (`\t`, `\n` and `\\` escaped), and writes of each
//!   `refused`, or a digit for each text: 1 where the first match is the whole text (as Linkerd asks), 2 where some match is
//!   (as we ask), 0 where none is.

use std::io::{self, BufRead};

use regex_syntax::hir::{Class, HirKind};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tables") => tables(),
        Some("judge") => judge(),
        _ => {
            eprintln!("usage: rust-regex tables NAME... | judge");
            std::process::exit(64);
        }
    }
}

fn ranges(pattern: &str) -> Option<Vec<(u32, u32)>> {
    let hir = regex_syntax::Parser::new().parse(pattern).ok()?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.iter().map(|r| (r.start() as u32, r.end() as u32)).collect()),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            text.chars().next().map(|c| vec![(c as u32, c as u32)])
        }
        _ => None,
    }
}

/// In base 36: the distance of each range from the end of the one before, and its length less one where that is not 0.
fn packed(ranges: &[(u32, u32)]) -> String {
    let mut end = 0;
    let mut words = Vec::new();
    for (first, last) in ranges {
        let mut word = base36(first - end);
        if last > first {
            word = format!("{word}+{}", base36(last - first));
        }
        words.push(word);
        end = *last;
    }
    words.join(" ")
}

fn base36(mut n: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(std::char::from_digit(n % 36, 36).unwrap());
        n /= 36;
        if n == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Each name on standard input, then a tab and its ranges; none where it is no name.
fn tables() {
    for line in io::stdin().lock().lines() {
        let pattern = line.expect("text");
        println!("{pattern}\t{}", ranges(&pattern).map(|r| packed(&r)).unwrap_or_else(|| "-".to_string()));
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some(other)) => out.push(other),
            (other, _) => out.push(other),
        }
    }
    out
}

fn judge() {
    for line in io::stdin().lock().lines() {
        let line = line.expect("text");
        let mut parts = line.split('\t').map(unescaped);
        let pattern = parts.next().unwrap_or_default();
        let own = match regex::Regex::new(&pattern) {
            Ok(own) => own,
            Err(_) => {
                println!("refused");
                continue;
            }
        };
        // The comments of `(?x)` end with their line.
        let whole = regex::Regex::new(&format!("\\A(?:{pattern})\\z"))
            .or_else(|_| regex::Regex::new(&format!("\\A(?:{pattern}\n)\\z")));
        let answers: String = parts
            .map(|text| match own.find(&text) {
                Some(found) if found.start() == 0 && found.end() == text.len() => '1',
                _ => match &whole {
                    Ok(whole) if whole.is_match(&text) => '2',
                    _ => '0',
                },
            })
            .collect();
        println!("{answers}");
    }
}
